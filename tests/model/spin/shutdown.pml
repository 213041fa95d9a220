/* Shutting a device down: close its queue, wait until it has drained (or not: when the last handle
 * goes inside a task), tell the worker to stop, join it. A producer submits meanwhile.
 *
 * Holds: what was accepted runs before the worker ends, and it ends. Mutants: NO_HEAVY, NO_WAKE,
 * NO_RECHECK, NO_DRAIN (the worker stops when told to), LATE_CLOSE (it is told before the queue is
 * closed). */
#define TASKS 2
#define PRODUCER 0
#define WORKER 1
#define CONTROLLER 2
#define FLAG(ticket) (ticket) /* from 1; the last one never comes */
#define TICKETS 0
#define PARKED 4
#define TOKEN 5
#define STOP 6
#define TIMELINES 1
#define WAITERS 1
#define BASE 7
#define VARIABLES 11 /* BASE and PROGRESS_VARIABLES */
#include "memory.pml"
#include "progress.pml"

#define CLOSED 128
bool accepted[TASKS + 1], ran[TASKS + 1], ended, joined;
byte chosen; /* the task that is looked after */

ltl all_ends { <> joined && [] (accepted[chosen] -> <> ran[chosen]) }

inline close() {
  d_step { empty_buffer(me); memory[TICKETS] = memory[TICKETS] | CLOSED }
}

inline ring() {
  load(PARKED, seen);
  if
  :: seen ->
    exchange(PARKED, 0, seen);
    if
    :: seen -> unpark(TOKEN)
    :: else
    fi
  :: else
  fi
}

proctype Producer(byte me) {
  byte ticket, seen;
  do
  :: ticket < TASKS ->
    fence();
    atomic { /* takes a ticket, by compare-exchange */
      if
      :: memory[TICKETS] & CLOSED -> goto refused
      :: else ->
        memory[TICKETS] = memory[TICKETS] + 1;
        ticket = memory[TICKETS];
        accepted[ticket] = true
      fi
    };
    store(FLAG(ticket), 1);
    ring()
  :: else -> break
  od;
refused:
  skip
}

inline look_whether_ready() {
  load(FLAG(ticket), seen);
  if
  :: !seen ->
    load(STOP, seen);
    if
    :: seen ->
      stopping = true;
#ifndef NO_DRAIN
      load(TICKETS, seen);
      stopping = (seen & 127) == ticket - 1;
      seen = stopping
#endif
    :: else
    fi
  :: else
  fi
}

proctype Worker(byte me) {
  byte ticket = 1, seen, slot;
  bool stopping;
  do
  :: !stopping ->
    look_whether_ready();
    if
    :: seen && !stopping ->
      ran[ticket] = true;
      complete(0, ticket);
      ticket++
    :: !seen ->
      store(PARKED, 1);
      heavy_barrier();
#ifndef NO_RECHECK
      look_whether_ready();
#endif
      if
      :: seen -> store(PARKED, 0)
      :: else -> park(TOKEN)
      fi
    :: else
    fi
  :: else -> break
  od;
  fence();
  ended = true
}

proctype Controller(byte me) {
  byte seen, last, slot;
#ifndef LATE_CLOSE
  close();
#endif
  load(TICKETS, last);
  last = last & 127;
  if
  :: wait_for(0, last, 0)
  :: skip
  fi;
  store(STOP, 1);
  ring();
#ifdef LATE_CLOSE
  close();
#endif
  ended;
  slot = 1;
  do
  :: slot <= TASKS -> assert(!accepted[slot] || ran[slot]); slot++
  :: else -> break
  od;
  joined = true
}

init {
  atomic {
    select (chosen : 1 .. TASKS);
    run Buffer(0); run Buffer(1); run Buffer(2);
    run Producer(PRODUCER); run Worker(WORKER); run Controller(CONTROLLER)
  }
}
