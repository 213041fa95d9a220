/* Doorbell: producers publish tasks, their worker goes to sleep between them. Each has published its
 * tickets in its own time; the worker runs them in order.
 *
 * Holds: a task that was submitted runs. Mutants: NO_HEAVY, OWN_LAST (a heavy barrier that lets
 * others pass theirs before its own stores are out), NO_WAKE, NO_RECHECK, EARLY_LOOK (what the light
 * barrier forbids the compiler: the look at `parked` moves before the publication), LATE_PARKED (the
 * worker says that it sleeps after its last look). */
#define PRODUCERS 2
#define TASKS 4
#define FLAG(ticket) (ticket)
#define PARKED 4
#define TOKEN 5
#define VARIABLES 6
#include "memory.pml"

bool submitted[TASKS], ran[TASKS];
byte chosen; /* the task that is looked after */

ltl every_task_runs { [] (submitted[chosen] -> <> ran[chosen]) }

proctype Producer(byte me) {
  byte ticket = me, seen;
  do
  :: ticket < TASKS ->
#ifdef EARLY_LOOK
    load(PARKED, seen);
#endif
    atomic { store(FLAG(ticket), 1); submitted[ticket] = true };
#ifndef EARLY_LOOK
    load(PARKED, seen);
#endif
    if
    :: seen ->
      exchange(PARKED, 0, seen);
      if
      :: seen -> unpark(TOKEN)
      :: else
      fi
    :: else
    fi;
    ticket = ticket + PRODUCERS
  :: else -> break
  od
}

proctype Worker(byte me) {
  byte ticket = 0, seen;
  do
  :: ticket < TASKS ->
    load(FLAG(ticket), seen);
    if
    :: seen -> ran[ticket] = true; ticket++
    :: else ->
#ifndef LATE_PARKED
      store(PARKED, 1);
      heavy_barrier();
#endif
#ifndef NO_RECHECK
      load(FLAG(ticket), seen);
#endif
#ifdef LATE_PARKED
      store(PARKED, 1);
      heavy_barrier();
#endif
      if
      :: seen -> store(PARKED, 0)
      :: else -> park(TOKEN)
      fi
    fi
  :: else -> break
  od
}

init {
  atomic {
    select (chosen : 0 .. TASKS - 1);
    run Buffer(0); run Buffer(1); run Buffer(2);
    run Producer(0); run Producer(1); run Worker(2)
  }
}
