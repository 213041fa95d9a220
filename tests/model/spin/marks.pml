/* Marks: two devices whose queues run ahead, on hardware of one domain, and whose tasks come after
 * tasks of the other one: a2 after b1, b1 after a1, b2 after a2. For each such event the consumer
 * either waits for its end (the scheduler's gate), or waits until it is issued and has the hardware
 * wait for its mark: any choice of the two. What processors do to memory is left out: Relacy looks
 * after that (in_flight_test.cpp).
 *
 * Holds: all tasks end; none starts before what it comes after has ended on the hardware, nor is
 * told to have ended before that one is (whose failure would be its own). Mutants: EARLY_WAIT (the
 * hardware is asked to wait before the mark is recorded: it then waits for nothing), NO_WAIT (handed
 * over without a wait), UNORDERED_ENDS (ends are told as the hardware comes to them, whatever was
 * awaited), CONSUMER_ENDS (the consumer alone tells ends, between two tasks). */
#define A 0
#define B 1
#define TASKS 2
#define IN_FLIGHT 2
#define OTHER(queue) (1 - (queue))
/* The other queue's ticket that a task comes after; 0: none. */
#define AFTER(queue, ticket) ((queue) == A -> (ticket) - 1 : (ticket))
#define GATED(queue, ticket) (gated >> (2 * (queue) + (ticket) - 1) & 1)
/* The next ticket has ended on the hardware, and so has, for all to see, what it comes after. */
#ifdef UNORDERED_ENDS
#define NEXT_ENDS(queue) (completed[queue] < ran[queue])
#else
#define NEXT_ENDS(queue) \
  (completed[queue] < ran[queue] && completed[OTHER(queue)] >= AFTER(queue, completed[queue] + 1))
#endif

byte issued[2], ran[2], completed[2];
byte gated; /* a bit a task: by the scheduler's gate */
chan hardware[2] = [IN_FLIGHT] of { byte, byte };

ltl all_end { <> (completed[A] == TASKS && completed[B] == TASKS) }

inline end_next(queue) {
  d_step {
    completed[queue]++;
    assert(completed[OTHER(queue)] >= AFTER(queue, completed[queue]))
  }
}

proctype Consumer(byte me) {
  byte ticket = 1, mark;
  do
  :: ticket <= TASKS ->
    completed[me] + IN_FLIGHT >= ticket;
    mark = AFTER(me, ticket);
    if
    :: GATED(me, ticket) -> completed[OTHER(me)] >= mark; mark = 0
    :: else ->
#ifndef EARLY_WAIT
      issued[OTHER(me)] >= mark;
#endif
      if
#ifdef NO_WAIT
      :: true -> mark = 0
#endif
      :: issued[OTHER(me)] < mark -> mark = 0 /* of a mark that was not recorded */
      :: else
      fi
    fi;
    hardware[me]!mark, ticket;
    issued[me] = ticket;
#ifdef CONSUMER_ENDS
    do
    :: NEXT_ENDS(me) -> end_next(me)
    :: else -> break
    od;
#endif
    ticket++
  :: else -> break
  od;
#ifdef CONSUMER_ENDS
  do
  :: NEXT_ENDS(me) -> end_next(me)
  :: completed[me] == TASKS -> break
  od
#endif
}

proctype Hardware(byte me) {
  byte mark, ticket;
end:
  do
  :: hardware[me]?mark, ticket ->
    ran[OTHER(me)] >= mark;
    assert(ran[OTHER(me)] >= AFTER(me, ticket));
    ran[me] = ticket
  od
}

/* Whoever learns that a task ended. */
proctype Completer(byte me) {
end:
  do
  :: NEXT_ENDS(me) -> end_next(me)
  od
}

init {
  atomic {
    select (gated : 0 .. 15);
    run Consumer(A); run Consumer(B); run Hardware(A); run Hardware(B);
#ifndef CONSUMER_ENDS
    run Completer(A); run Completer(B)
#endif
  }
}
