"""Runs programs of heddle-bench's rows in some framework, on behalf of rival_python.cpp.

First a line with the framework's name and version. Then commands come as lines on standard input,
and answers go to standard output:
  {"program": NAME, "arrays": [{"path": P, "dtype": D, "shape": [...]}, ...], "results": N}
      the last N arrays are the results;
      prepares the program, runs it once; answers "ready", or "no NAME"
  run N      answers the mean time of a call in ns
  fetch      writes the results to the files of the last arrays; answers "done"
"""

import json
import sys
import time

import numpy as np


def serve(greeting, programs, prepare, wait=lambda result: None):
    """Answers until the input ends. `prepare(program, inputs)` makes a function without parameters,
    which runs the program and returns its result, or a tuple, of which the last ones are fetched.
    Where it need not be there yet, `wait(result)` waits for it, outside of the time."""
    call = result = targets = None
    print(greeting, flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "run":
            count = int(words[1])
            start = time.perf_counter_ns()
            for _ in range(count):
                result = call()
            ns = (time.perf_counter_ns() - start) / count
            wait(result)
            print(ns, flush=True)
        elif words[0] == "fetch":
            all_of_them = result if isinstance(result, tuple) else (result,)
            for target, each in zip(targets, all_of_them[-len(targets):]):
                target[...] = np.asarray(each)
                target.flush()
            print("done", flush=True)
        else:
            command = json.loads(line)
            program = programs.get(command["program"])
            if program is None:
                print(f"no {command['program']}", flush=True)
                continue
            maps = [np.memmap(a["path"], a["dtype"], "r+", shape=tuple(a["shape"]))
                    for a in command["arrays"]]
            targets = maps[-command["results"]:]
            call = prepare(program, maps[:-command["results"]])
            result = call()
            print("ready", flush=True)
