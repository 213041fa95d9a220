/* Memory as the processors of the x86 family have it: stores wait, in order, in a buffer of their
 * processor, where it alone sees them; locked instructions empty the buffer first. A light barrier
 * (scheduler/barrier.hpp) is nothing here; a heavy one empties the buffer of its own processor, then
 * that of each other in turn.
 *
 * There are three processors. A model that includes this defines VARIABLES, runs a Buffer for each
 * processor, and gives its processes the number of theirs as `me`. */
#define PROCESSORS 3
byte memory[VARIABLES];
chan buffer[PROCESSORS] = [4] of { byte, byte };
hidden byte at_, value_, left_;

proctype Buffer(byte whose) {
end:
  do
  :: d_step { buffer[whose]?at_, value_ -> memory[at_] = value_ }
  od
}

inline store(at, value) { buffer[me]!at, value }

inline load(at, result) {
  d_step {
    result = memory[at];
    left_ = len(buffer[me]);
    do
    :: left_ > 0 ->
      buffer[me]?at_, value_;
      buffer[me]!at_, value_;
      if
      :: at_ == at -> result = value_
      :: else
      fi;
      left_--
    :: else -> break
    od;
    left_ = 0
  }
}

/* Within a d_step: hidden variables are not put back where the search goes back. */
inline empty_buffer(whose) {
  do
  :: len(buffer[whose]) > 0 -> buffer[whose]?at_, value_; memory[at_] = value_
  :: else -> break
  od;
  left_ = 0
}
inline fence() { d_step { empty_buffer(me) } }
inline exchange(at, value, result) {
  d_step {
    empty_buffer(me);
    result = memory[at];
    memory[at] = value
  }
}
inline add(at, value) {
  d_step {
    empty_buffer(me);
    memory[at] = memory[at] + value
  }
}

inline heavy_barrier() {
#ifdef NO_HEAVY
  skip
#else
#ifndef OWN_LAST
  fence();
#endif
  d_step { empty_buffer(0) };
  d_step { empty_buffer(1) };
  d_step { empty_buffer(2) }
#endif
}

/* Parker: sleeps until there is a token, and takes it. */
inline park(token) { d_step { memory[token] == 1 -> empty_buffer(me); memory[token] = 0 } }
inline unpark(token) {
#ifdef NO_WAKE
  skip
#else
  d_step { empty_buffer(me); memory[token] = 1 }
#endif
}
