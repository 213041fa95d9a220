#!/usr/bin/env python3
"""Builds and runs programs on heddle as strangers would: with pkg-config and with CMake against an
installation that was moved; the toy backend also runs the conformance suites. As their meson
subproject heddle is configured, and two of its parts are compiled, unless a work folder is given:
then all of it is, and they run. usage: consumers.py SOURCE_ROOT BUILD_ROOT [WORK_DIR (kept)]"""
import concurrent.futures
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

PROGRAMS = {
    "scheduler_host": ["scheduler_host.cpp"],
    "tensor_host": ["tensor_host.cpp"],
    "toy_backend": ["toy_backend.cpp", "toy_device.cpp"],
}
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion",
            "-Werror"]


def run(command, **kwargs):
    """Runs a command; its output is shown only when it fails."""
    print("+", shlex.join(map(str, command)), flush=True)
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, **kwargs)
    if done.returncode != 0:
        print(done.stdout)
        sys.exit(f"failed with {done.returncode}: {shlex.join(map(str, command))}")
    return done.stdout


class Consumers:
    def __init__(self, source, work, whole):
        self.whole = whole
        self.source = source
        self.here = source / "tests" / "consumers"
        self.work = work
        # Variables of the test host must not help the consumers.
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("HEDDLE_", "MESON_", "LD_", "PKG_CONFIG", "DESTDIR"))}
        self.env["HEDDLE_CACHE"] = "off"  # kernels of other builds would hide missing files
        self.cxx = shlex.split(self.env.get("CXX", "c++"))

    def as_subproject(self):
        """Configures heddle inside another project, which then would build all that its programs
        need, and compiles it there: two of its parts, or all, and then the programs run."""
        project, build = self.work / "subproject", self.work / "subproject-build"
        (project / "subprojects").mkdir(parents=True)
        (project / "subprojects" / "heddle").symlink_to(self.source, target_is_directory=True)
        for source in {s for sources in PROGRAMS.values() for s in sources} | {"toy_device.hpp"}:
            shutil.copy(self.here / source, project)
        shutil.copy(self.here / "subproject.build", project / "meson.build")
        run(["meson", "setup", build, project, "--buildtype=debug", "--unity=subprojects",
             "--unity-size=16", "--force-fallback-for=heddle"], env=self.env)
        wanted = run(["ninja", "-C", build, "-n", "-v"], env=self.env)
        for part in ("libheddle.so", "heddle-compile", *PROGRAMS):
            if f"-o {part}" not in wanted and f"/{part}" not in wanted:
                sys.exit(f"the project would not build {part}:\n{wanted}")
        parts = [] if self.whole else ["heddle_files", "heddle_devices"]
        run(["meson", "compile", "-C", build, *parts], env=self.env)
        if self.whole:
            self.check_programs(build, self.env)
        shutil.rmtree(build)

    def installed(self, build):
        """Installs what was built, and moves it."""
        first, moved = self.work / "first", self.work / "moved"
        run(["meson", "install", "--no-rebuild", "-C", build, "--destdir", first], env=self.env)
        self.first_prefix = next(first.rglob("include/heddle/heddle.hpp")).parents[2]
        self.first_prefix.rename(moved)
        return moved

    def check_programs(self, folder, env):
        for name in PROGRAMS:
            print(run([folder / name], cwd=folder, env=env), end="")
        for backend in ("cc", "sync_gccjit"):
            print(run([folder / "tensor_host", backend], cwd=folder, env=env), end="")

    def compile_flags(self, prefix):
        pc = next(prefix.rglob("heddle.pc"))
        env = self.env | {"PKG_CONFIG_PATH": str(pc.parent)}
        flags = shlex.split(run(["pkg-config", "--cflags", "--libs", "heddle"], env=env))
        if not any(str(prefix) in flag for flag in flags):
            sys.exit(f"heddle.pc was not relocated to {prefix}: {flags}")
        lib = run(["pkg-config", "--variable=libdir", "heddle"], env=env).strip()
        return flags, self.env | {"LD_LIBRARY_PATH": lib}

    def with_pkg_config(self, prefix):
        folder = self.work / "pkg-config"
        folder.mkdir()
        flags, env = self.compile_flags(prefix)
        for name, sources in PROGRAMS.items():
            run(self.cxx + WARNINGS + [self.here / s for s in sources] + ["-o", folder / name] +
                flags, env=self.env)
        self.check_programs(folder, env)

    def plugin(self, prefix):
        """A plugin on heddle that was loaded anew, under the path of the one before, is the new
        one: dlclose() unloads it."""
        folder = self.work / "plugin"
        folder.mkdir()
        flags, env = self.compile_flags(prefix)
        versions = ["1", "2"]
        for version in versions:
            run(self.cxx + WARNINGS + ["-shared", "-fPIC", f"-DVERSION={version}",
                self.here / "plugin.cpp", "-o", folder / f"{version}.so"] + flags, env=self.env)
        run(self.cxx + ["-std=c++20", self.here / "plugin_host.cpp", "-o", folder / "host"],
            env=self.env)
        told = run([folder / "host", *(folder / f"{v}.so" for v in versions)], env=env).split()
        if told != versions:
            sys.exit(f"plugins of versions {versions} were loaded, and {told} ran")

    def with_cmake(self, prefix):
        folder = self.work / "cmake"
        *launcher, compiler = self.cxx  # meson says "ccache c++" where there is ccache
        run(["cmake", "-S", self.here, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}",
             f"-DCMAKE_CXX_COMPILER={compiler}",
             f"-DCMAKE_CXX_COMPILER_LAUNCHER={';'.join(launcher)}"], env=self.env)
        run(["cmake", "--build", folder], env=self.env)
        self.check_programs(folder, self.env)

    def planted(self, prefix):
        """A helper planted where heddle was first installed, where the program starts, or
        beside a link to the library never runs; the library's own does, and without it there is
        none, though there is one where it was built."""
        folder = self.work / "planted"
        links, marker = folder / "links", folder / "ran"
        links.mkdir(parents=True)
        library = next(p for p in prefix.rglob("libheddle.so.*") if not p.is_symlink())
        flags, env = self.compile_flags(prefix)
        soname = links / "libheddle.so.0"
        soname.symlink_to(library)
        plants = [links, folder, folder / "jit", self.first_prefix / "libexec" / "heddle"]
        for place in plants:
            place.mkdir(parents=True, exist_ok=True)
            plant = place / "heddle-compile"
            plant.write_text(f"#!/bin/sh\necho $0 >> {marker}\n")
            plant.chmod(0o755)
        program = folder / "tensor_host"
        run(self.cxx + [self.here / "tensor_host.cpp", "-o", program] + flags, env=self.env)
        real = prefix / "libexec" / "heddle" / "heddle-compile"
        for path in (library.parent, links, os.path.relpath(library.parent, folder)):
            env = self.env | {"LD_LIBRARY_PATH": str(path)}
            print(run([program, "sync_gccjit"], cwd=folder, env=env), end="")
            hidden = real.rename(real.with_name("hidden"))
            missing = subprocess.run([program, "sync_gccjit"], cwd=folder, env=env, text=True,
                                     capture_output=True, check=False)
            hidden.rename(real)
            if missing.returncode != 1 or "HEDDLE_COMPILE_HELPER" not in missing.stderr:
                sys.exit(f"without a helper: {missing}")
            if marker.exists():
                sys.exit(f"planted helpers ran: {marker.read_text()}")
        shutil.rmtree(self.work / "first")

    def conformance(self, prefix):
        """The suites of tests/device, alone in a folder, on the toy backend."""
        folder = self.work / "conformance"
        shutil.copytree(self.source / "tests" / "device", folder / "tests" / "device")
        flags, env = self.compile_flags(prefix)
        gtest = shlex.split(run(["pkg-config", "--cflags", "--libs", "gtest_main", "gmock"]))
        sources = sorted((folder / "tests" / "device").glob("*.cpp"))
        # Many files at a time: half the time.
        together = [sources[k:k + 11] for k in range(0, len(sources), 11)]
        sources = [self.here / "toy_conformance.cpp", self.here / "toy_device.cpp"]
        for number, group in enumerate(together):
            sources.append(folder / f"together{number}.cpp")
            sources[-1].write_text("".join(f'#include "{source}"\n' for source in group))
        objects = [folder / (source.stem + ".o") for source in sources]
        compile_flags = [flag for flag in flags if flag.startswith(("-I", "-std"))]
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(lambda pair: run(
                self.cxx + WARNINGS + ["-c", f"-I{folder}", pair[0], "-o", pair[1]] + compile_flags,
                env=self.env), zip(sources, objects)))
        program = folder / "toy_conformance"
        run(self.cxx + objects + ["-o", program] + flags + gtest, env=self.env)
        output = run([program], cwd=folder, env=env | {"HEDDLE_TEST_BACKENDS": "toy"})
        print("\n".join(output.splitlines()[-3:]))
        if "/toy (" not in output:
            sys.exit("no conformance test ran on the toy backend:\n" + output)


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    build = pathlib.Path(sys.argv[2]).resolve()
    kept = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
    if kept:
        kept.mkdir(parents=True)
    work = kept or pathlib.Path(tempfile.mkdtemp(prefix="heddle-consumers-"))
    try:
        consumers = Consumers(source, work, whole=kept is not None)
        consumers.as_subproject()
        prefix = consumers.installed(build)
        consumers.with_pkg_config(prefix)
        consumers.plugin(prefix)
        consumers.with_cmake(prefix)
        consumers.planted(prefix)
        consumers.conformance(prefix)
    finally:
        if not kept:
            shutil.rmtree(work, ignore_errors=True)
    print("consumers: ok")


if __name__ == "__main__":
    main()
