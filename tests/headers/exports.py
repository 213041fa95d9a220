#!/usr/bin/env python3
"""The library exports what installed headers declare, and nothing else, and destroys no static
object at exit: static objects of its users, of any order, may still call it.
usage: exports.py SOURCE_ROOT LIBRARY"""
import pathlib
import re
import subprocess
import sys

# Of gdb's JIT interface, by whose rules they are found.
OTHERS = {"__jit_debug_register_code", "__jit_debug_descriptor", "HEDDLE_0"}
ABOUT = re.compile(r"^(?:(?:non-)?virtual thunk to |guard variable for |vtable for |VTT for |"
                   r"typeinfo (?:name )?for |construction vtable for )")


def declared(root):
    """The names that installed headers define or declare at any depth, by their last part."""
    headers = [*(root / "include" / "heddle").glob("*.hpp"), root / "devices" / "device.hpp"]
    code = "\n".join(re.sub(r"//[^\n]*|\"[^\"\n]*\"", " ", path.read_text(encoding="utf-8"))
                     for path in headers)
    types = set(re.findall(r"\b(?:class|struct|enum|using)\s+(?:class\s+)?(?:\[\[[^\]]*\]\]\s*)?"
                           r"(\w+)\s*(?::[^:;{][^;{]*)?[{=]", code))
    functions = set(re.findall(r"\b(\w+)\s*\(", code))
    constants = set(re.findall(r"\b(\w+)(?:\[\])?\s*(?:=|\{)", code))
    return types, types | functions | constants | set(re.findall(r"operator\W{1,3}(?=\()", code))


def first_part(symbol):
    """Namespaces, and the first name after them, of a demangled symbol: of heddle::sched::A::f(int)
    "sched" and "A". What it returns stands before the names of templates."""
    symbol = ABOUT.sub("", symbol)
    at = re.search(r"(?<![\w:<(,&* ])heddle::|^heddle::|(?<= )heddle::", symbol)
    if symbol.startswith("std::hash<heddle::"):
        return [], re.match(r"std::hash<heddle::(\w+)>", symbol).group(1)
    if at is None:
        return None
    # A template's own name is the last that begins outside brackets.
    depth, start = 0, at.start()
    for here, char in enumerate(symbol):
        if char in "<([":
            if char == "(" and depth == 0:
                break
            depth += 1
        elif char in ">)]":
            depth -= 1
        elif depth == 0 and symbol.startswith("heddle::", here) and \
                (here == 0 or symbol[here - 1] == " "):
            start = here
    parts = re.match(r"heddle::((?:\w+::)*)(operator\W{1,3}(?=\()|\w+)", symbol[start:])
    if parts is None:
        return None
    names = [part for part in parts.group(1).split("::") if part] + [parts.group(2)]
    spaces = []
    while len(names) > 1 and names[0] in ("sched", "dev", "jit", "rt", "this_task"):
        spaces.append(names.pop(0))
    return spaces, names[0]


def main():
    root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    listed = subprocess.run(["nm", "-D", "--defined-only", "-C", library], text=True, check=True,
                            stdout=subprocess.PIPE).stdout
    symbols = sorted({line.split(maxsplit=2)[2].split("@@")[0] for line in listed.splitlines()})
    types, names = declared(root)
    wrong, seen = [], set()
    for symbol in symbols:
        if symbol in OTHERS:
            continue
        part = first_part(symbol)
        if part is None or part[1] not in names or part[0] and part[0][0] in ("jit", "rt"):
            wrong.append(symbol)
        else:
            seen.add(part[1])
    for needed in ("Backend", "Scheduler", "TaskDevice", "Error", "Pending", "register_backend"):
        if needed not in seen or needed not in names:
            wrong.append(f"nothing of {needed}, which users need")
    # Of the floors that it consists of: the C library's own atexit() hides the difference in it.
    build = pathlib.Path(library).parent
    archives = [path for floor in ("files", "scheduler", "devices", "jit", "runtime")
                for path in (build / floor).glob("libheddle_*.a")]
    needs = subprocess.run(["nm", "--undefined-only", *archives], text=True, check=True,
                           stdout=subprocess.PIPE).stdout
    if "__cxa_atexit" in needs:
        sys.exit("a static object has a destructor (__cxa_atexit): see "
                 "scheduler/threads/never_destroyed.hpp")
    if wrong:
        sys.exit("exports that no installed header declares:\n" + "\n".join(wrong))
    print(f"exports: ok, {len(symbols)} symbols of {len(types & seen)} types")


if __name__ == "__main__":
    main()
