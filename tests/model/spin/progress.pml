/* Progress and Timeline: what completes the tickets of a timeline, and what waits for one (see
 * scheduler/protocol/progress.hpp). A completer that is not watched stores and looks; a watched one, and its
 * waiters, use locked instructions until nobody has waited for one task. Timelines are numbered; each
 * has an entry and a token for each of its WAITERS.
 *
 * A model that includes this defines TIMELINES, WAITERS, and BASE, the first of PROGRESS_VARIABLES. */
#define COMPLETED(timeline) (BASE + 3 * (timeline))
#define WATCHED(timeline) (BASE + 3 * (timeline) + 1)
#define WAITING(timeline) (BASE + 3 * (timeline) + 2)
#define WAITER_TOKEN(timeline, slot) (BASE + 3 * TIMELINES + WAITERS * (timeline) + slot)
#define PROGRESS_VARIABLES ((3 + WAITERS) * TIMELINES)

bool watching[TIMELINES];            /* what the completer knows of WATCHED */
bool locked[TIMELINES];              /* guards the entries */
byte entry[TIMELINES * WAITERS];     /* the tickets waited for; 0: none */

inline lock(timeline) { d_step { !locked[timeline] -> empty_buffer(me); locked[timeline] = true } }
inline unlock(timeline) { d_step { empty_buffer(me); locked[timeline] = false } }

/* `seen` and `slot` are bytes of the caller's. */
inline complete(timeline, ticket) {
  store(COMPLETED(timeline), ticket);
  if
  :: !watching[timeline] ->
    load(WATCHED(timeline), seen);
    watching[timeline] = seen
  :: else ->
    fence();
    load(WAITING(timeline), seen);
    if
    :: !seen ->
      store(WATCHED(timeline), 0);
      fence();
      load(WAITING(timeline), seen);
      watching[timeline] = seen;
      if
      :: seen -> store(WATCHED(timeline), 1)
      :: else
      fi
    :: else
    fi
  fi;
  slot = 0;
  do
  :: seen && slot < WAITERS ->
    lock(timeline);
    if
    :: entry[timeline * WAITERS + slot] != 0 && entry[timeline * WAITERS + slot] <= ticket ->
      entry[timeline * WAITERS + slot] = 0;
      add(WAITING(timeline), -1);
      unlock(timeline);
      unpark(WAITER_TOKEN(timeline, slot))
    :: else -> unlock(timeline)
    fi;
    slot++
  :: else -> break
  od
}

/* As the waiter number `slot` of the timeline. */
inline wait_for(timeline, ticket, slot) {
  load(COMPLETED(timeline), seen);
  if
  :: seen < ticket ->
    lock(timeline);
    entry[timeline * WAITERS + slot] = ticket;
    add(WAITING(timeline), 1);
    load(WATCHED(timeline), seen);
    if
    :: !seen ->
      store(WATCHED(timeline), 1);
      heavy_barrier()
    :: else
    fi;
#ifdef NO_RECHECK
    seen = 0;
#else
    load(COMPLETED(timeline), seen);
#endif
    if
    :: seen >= ticket ->
      entry[timeline * WAITERS + slot] = 0;
      add(WAITING(timeline), -1);
      unlock(timeline)
    :: else ->
      unlock(timeline);
      park(WAITER_TOKEN(timeline, slot))
    fi
  :: else
  fi
}
