/* A copy between two devices: A writes x, B copies it to y once A has, A overwrites x once B has
 * copied it, and so on. Tasks are queued already; gates are waits for an event of the other device.
 * A host awaits B.
 *
 * Holds: each copy is of the value written for it, and the host's await returns. Mutants: NO_HEAVY,
 * NO_WAKE, NO_RECHECK, NO_GATE (A overwrites without waiting), EARLY_COMPLETE (B's copy is announced
 * before it is made). */
#define ROUNDS 2
#define X 0
#define Y 1
#define TIMELINES 2
#define WAITERS 2
#define BASE 2
#define VARIABLES 12 /* BASE and PROGRESS_VARIABLES */
#include "memory.pml"
#include "progress.pml"

#define A 0
#define B 1
bool returned;

ltl await_returns { <> returned }

proctype DeviceA(byte me) {
  byte round = 1, seen, slot;
  do
  :: round <= ROUNDS ->
#ifndef NO_GATE
    wait_for(B, round - 1, 0);
#endif
    store(X, round);
    complete(A, round);
    round++
  :: else -> break
  od
}

proctype DeviceB(byte me) {
  byte round = 1, seen, slot, copied;
  do
  :: round <= ROUNDS ->
    wait_for(A, round, 0);
#ifdef EARLY_COMPLETE
    complete(B, round);
#endif
    load(X, copied);
    assert(copied == round);
    store(Y, copied);
#ifndef EARLY_COMPLETE
    complete(B, round);
#endif
    round++
  :: else -> break
  od
}

proctype Host(byte me) {
  byte seen, copied;
  wait_for(B, ROUNDS, 1);
  load(Y, copied);
  assert(copied == ROUNDS);
  returned = true
}

init {
  atomic {
    run Buffer(0); run Buffer(1); run Buffer(2);
    run DeviceA(0); run DeviceB(1); run Host(2)
  }
}
