"""Which file may include which: floors, and rooms of a floor. Part of tidy.py."""
import collections
import os
import re

# Top folder of an include (include/heddle counts as heddle) to its floor. Siblings share a number.
FLOORS = {"heddle": 0, "scheduler": 1, "files": 1, "jit": 2, "devices": 2, "runtime": 3, "tools": 4,
          "tests": 4}
# Rooms of a floor: a file includes those of its own room and of the ones before it. "": the files
# beside the rooms.
ROOMS = {
    "scheduler": ("", "protocol", "threads", "observe", "device", "modes", "simulation"),
    "jit": ("system", "value", "loop", "describe", "vector", "graph", "lower", "schedule", "emit",
            "cache", "machine", "toolchain", "code", "tune", ""),
    "runtime": ("settings", "queue", "memory", "device", "door", "transfer", "launch", "context",
                "replay", "tune", "executor", "together"),
}
# May be used by outsiders, hence must not look inside the library.
PUBLIC_ONLY = ("tests/device/", "tests/consumers/", "examples/")
SOURCE = (".cpp", ".hpp", ".h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

Finding = collections.namedtuple("Finding", "path line rule text")


def resolve(tree, path, name):
    """The project file that `#include name` in `path` means; None when it is none of ours."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    installed = name[len("heddle/"):] if name.startswith("heddle/devices/") else name
    for candidate in (beside, "include/" + name, name, "tests/" + name, installed):
        if candidate in tree.files:
            return candidate
    return None


def floor_of(path):
    top = path.removeprefix("include/").split("/")[0]
    return top, FLOORS.get(top)


def check_floors(tree):
    for path, text in tree.with_suffix(*SOURCE):
        top, floor = floor_of(path)
        public_only = path.startswith(PUBLIC_ONLY)
        for match in INCLUDE.finditer(text):
            number = text.count("\n", 0, match.start(2)) + 1
            target = resolve(tree, path, match.group(2))
            if target is None:
                if match.group(1) == '"' and match.group(2).endswith(SOURCE):
                    yield Finding(path, number, "floors", f'"{match.group(2)}" is no file of the '
                                  "project (expected <...> for others' headers)")
                continue
            into, into_floor = floor_of(target)
            if public_only:
                own = target.startswith(PUBLIC_ONLY) or target == "devices/device.hpp"
                if not own and into != "heddle":
                    yield Finding(path, number, "floors", f"{target} included by what users could "
                                  "have written (expected installed headers alone)")
            elif top == "tests":  # opens the floor it examines
                continue
            elif None not in (floor, into_floor) and into != top and into_floor >= floor:
                yield Finding(path, number, "floors", f"{target} (floor {into_floor}) included from"
                              f" {top} (floor {floor}; expected a lower floor or its own)")


def room_of(path):
    """Floor and room; the floor is None where there are no rooms."""
    floor, *rest = path.split("/")
    return (floor, rest[0] if len(rest) > 1 else "") if floor in ROOMS else (None, "")


def check_rooms(tree):
    for path, text in tree.with_suffix(*SOURCE):
        floor, room = room_of(path)
        if floor is None:
            continue
        rooms = ROOMS[floor]
        if room not in rooms:
            yield Finding(path, 1, "rooms", f"in {room}/ (expected one of {', '.join(rooms)})")
            continue
        for match in INCLUDE.finditer(text):
            into, into_room = room_of(resolve(tree, path, match.group(2)) or "")
            if into == floor and into_room in rooms and rooms.index(into_room) > rooms.index(room):
                number = text.count("\n", 0, match.start(2)) + 1
                yield Finding(path, number, "rooms", f"{match.group(2)} included from "
                              f"'{room}' (expected one of its room or of those before it: "
                              f"{', '.join(rooms)})")
