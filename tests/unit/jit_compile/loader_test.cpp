// The loader: damaged libraries never reach dlopen; what was checked is what runs.
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>

#include "child_process.hpp"
#include "files/elf.hpp"
#include "files/temp_dir.hpp"
#include "jit/cache/library.hpp"
#include "jit/emit/c.hpp"
#include "jit/system/process.hpp"
#include "jit/system/programs.hpp"
#include "jit/toolchain/link.hpp"
#include "kernel_runner.hpp"
#include "scratch.hpp"
#include "support/failure.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// A shared library made from C text.
Library library_from(const std::string& source) {
  const Scratch scratch;
  const auto source_path = scratch.path() / "unit.c";
  const auto library_path = scratch.path() / "unit.so";
  write_file(source_path, source);
  Command command{
      {find_program("cc", {})->string(), "-O1", "-fPIC", "-shared", "-o", library_path.string()},
      {}};
  command.argv.insert(command.argv.end(), kernel_link_options.begin(), kernel_link_options.end());
  command.argv.push_back(source_path.string());
  const RunResult result = run_command(command, std::chrono::seconds(60));
  if (!result.exit.success()) throw std::runtime_error(result.output);
  Library library;
  library.bytes = read_file(library_path, image_bytes_max);
  library.sum = checksum(library.bytes);
  return library;
}

std::string constant_kernel(int value) {
  return "buffer t0 output i32[]\nkernel {\n  t0[] = " + std::to_string(value) + ":i32\n}\n";
}

Library constant_library(int value) {
  return library_from(emit_c(unit_from("k", constant_kernel(value))));
}

std::int32_t run_constant(const dev::Module& module) {
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{0})};
  call.run(module.host_function(0));
  return elements_of<std::int32_t>(call.buffers[0])[0];
}

Image image_of(const Library& library, const std::string& kernel = "k") {
  return {std::string(host_image_kind()), library.bytes, library.sum, {{kernel_symbol(kernel)}}};
}

std::shared_ptr<const dev::Module> load(const Library& library, const std::string& kernel = "k") {
  dev::LoadOptions options;
  options.name = "unit";
  std::shared_ptr<const dev::Module> module;
  throw_if_failed(dev::load_on_host(image_of(library, kernel), options, &module));
  return module;
}

/// The refusal's text; a load that works is a failure of the test.
std::string refusal(const Library& library, const std::string& kernel = "k") {
  try {
    static_cast<void>(load(library, kernel));
  } catch (const Error& error) {
    return error.code() == ErrorCode::compile_failed ? error.what() : "wrong code";
  }
  return "loaded";
}

TEST(LoaderTest, LoadsAndRuns) {
  // O48, J10
  EXPECT_EQ(run_constant(*load(constant_library(5))), 5);
}

TEST(LoaderTest, EveryTruncationIsRefused) {
  // reliability 0.2: 75 % of cut files end in SIGBUS inside dlopen
  Library library = constant_library(5);
  const std::vector<std::byte> whole = library.bytes;
  for (std::size_t size = 0; size < whole.size(); size += size < 5000 ? 1 : 97) {
    EXPECT_FALSE(check_library(std::span(whole).first(size)).ok()) << size;
  }
  library.bytes.resize(whole.size() / 2);
  library.sum = checksum(library.bytes);
  EXPECT_THAT(refusal(library), HasSubstr("cut short"));
}

TEST(LoaderTest, EveryFlippedBitIsRefused) {
  // reliability 0.2: one flipped bit is a crash or a silently wrong number
  const Library library = constant_library(5);
  Library damaged = library;
  for (std::size_t bit = 0; bit < 8 * library.bytes.size(); bit += 509) {
    const auto mask = static_cast<std::byte>(1 << (bit % 8));
    damaged.bytes[bit / 8] ^= mask;
    EXPECT_THAT(refusal(damaged), HasSubstr("unusable")) << bit;
    damaged.bytes[bit / 8] ^= mask;
  }
  EXPECT_EQ(run_constant(*load(damaged)), 5);
}

TEST(LoaderTest, ForeignFilesAreRefused) {
  // J10: not ELF, another machine, not a library, corrupt tables
  const auto text = [](std::string_view s) {
    return std::vector<std::byte>(reinterpret_cast<const std::byte*>(s.data()),
                                  reinterpret_cast<const std::byte*>(s.data()) + s.size());
  };
  EXPECT_THAT(check_library(text("garbage")).message(), HasSubstr("not an ELF file"));
  EXPECT_FALSE(check_library({}).ok());
  const std::vector<std::byte> good = constant_library(5).bytes;
  ASSERT_TRUE(check_library(good).ok());
  const auto altered = [&good](auto&& change) {
    std::vector<std::byte> bytes = good;
    Elf64_Ehdr header;
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return std::string(check_library(bytes).message());
  };
  EXPECT_THAT(altered([](auto& h) { h.e_machine = EM_SPARC; }), HasSubstr("machine"));
  EXPECT_THAT(altered([](auto& h) { h.e_ident[EI_CLASS] = ELFCLASS32; }), HasSubstr("64-bit"));
  EXPECT_THAT(altered([](auto& h) { h.e_type = ET_EXEC; }), HasSubstr("shared library"));
  EXPECT_THAT(altered([](auto& h) { h.e_phnum = 0; }), HasSubstr("program headers"));
  EXPECT_THAT(altered([](auto& h) { h.e_phoff = ~0ull; }), HasSubstr("segment"));
  EXPECT_THAT(altered([](auto& h) { h.e_shoff = ~0ull - 8; }), HasSubstr("section"));
  EXPECT_THAT(altered([](auto& h) { h.e_shentsize = 1; }), HasSubstr("section headers"));
}

TEST(LoaderTest, ImagesAreCheckedWithoutLoading) {
  // D14, J11: a library of other kernels, or for another ABI, is told by its tables alone
  const Library library = constant_library(5);
  EXPECT_TRUE(image_of(library).check().ok());
  EXPECT_THAT(image_of(library, "other").check().message(), HasSubstr("heddle_run_other"));
  EXPECT_THAT(image_of(library_from("const unsigned heddle_unit_abi = 999;")).check().message(),
              HasSubstr("kernel ABI is 999"));
  EXPECT_EQ(image_of(library).hash(), image_of(library).hash());
  EXPECT_NE(image_of(library).hash(), image_of(library, "other").hash());
  EXPECT_NE(image_of(library).hash(), image_of(constant_library(6)).hash());
  Library damaged = library;
  damaged.bytes.back() ^= std::byte{1};
  EXPECT_THAT(image_of(damaged).check().message(), HasSubstr("checksum"));
}

TEST(LoaderTest, MissingAndForeignSymbolsAreRefused) {
  // kernel ABI: versioned
  EXPECT_THAT(refusal(constant_library(5), "other"), HasSubstr("kernel 'heddle_run_other'"));
  EXPECT_THAT(refusal(library_from("int nothing;")), HasSubstr("heddle_unit_abi"));
  EXPECT_THAT(refusal(library_from("const unsigned heddle_unit_abi = 999;")),
              HasSubstr("kernel ABI is 999"));
  EXPECT_THAT(refusal(library_from("const unsigned heddle_unit_abi = 2; void heddle_gone(void);"
                                   "void heddle_run_k(void) { heddle_gone(); }")),
              HasSubstr("heddle_gone"));
}

TEST(LoaderTest, MissingMemoryIsNotTheLibrarysFault) {
  // J10, J11: so an entry of the cache stays, which is sound
  const Library library = library_from(
      "const unsigned heddle_unit_abi = 2; char heddle_big[1u << 30];"
      "char* heddle_run_k(void) { return heddle_big; }");
  static_cast<void>(load(library));
  const pid_t child = start([&] {
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    if (getrlimit(RLIMIT_AS, &limit) != 0) return false;
    limit.rlim_cur = pages * static_cast<std::uint64_t>(getpagesize()) + (256u << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    const Status status = failure([&] { static_cast<void>(load(library)); });
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
    return status.code() == ErrorCode::exhausted &&
           status.to_string().find("'unit'") != std::string::npos;
  });
  EXPECT_TRUE(ended_well(child));
}

TEST(LoaderTest, LibrariesLoadedTogetherStayApart) {
  // dlopen takes an equal path for the same library; descriptor numbers are used again
  std::vector<Library> libraries;
  for (int k = 0; k < 6; ++k) libraries.push_back(constant_library(k));
  std::vector<std::shared_ptr<const dev::Module>> modules;
  for (int round = 0; round < 20; ++round) {
    for (const Library& library : libraries) {
      modules.push_back(load(library));
    }
  }
  for (std::size_t k = 0; k < modules.size(); ++k) {
    EXPECT_EQ(run_constant(*modules[k]), static_cast<int>(k % libraries.size()));
  }
}

TEST(LoaderTest, ModulesUnloadAndLeaveNothing) {
  // 10,000 rounds leave memory and descriptors flat: the loader's share
  const Library library = constant_library(5);
  const int descriptors = open_descriptors();
  const auto mappings = [] {
    const std::string maps = read_text("/proc/self/maps");
    std::size_t count = 0;
    for (std::size_t at = 0; (at = maps.find("memfd:heddle", at)) != std::string::npos; ++at)
      ++count;
    return count;
  };
  for (int k = 0; k < 200; ++k) {
    const auto module = load(library);
    ASSERT_EQ(run_constant(*module), 5);
    ASSERT_GT(mappings(), 0u);
  }
  EXPECT_EQ(mappings(), 0u);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(LoaderTest, FunctionsHaveNames) {
  // J12: what debuggers and backtraces ask
  const auto module = load(constant_library(5));
  void* const function = reinterpret_cast<void*>(module->host_function(0));
  Dl_info info{};
  ASSERT_NE(dladdr(function, &info), 0);
  EXPECT_STREQ(info.dli_sname, "heddle_run_k");
  char** const lines = backtrace_symbols(&function, 1);
  ASSERT_NE(lines, nullptr);
  EXPECT_THAT(lines[0], HasSubstr("heddle_run_k"));
  std::free(lines);
}

TEST(LoaderTest, DebuggersAreLedToNoOtherFile) {
  // J12: gdb opens what a library was loaded from, by its name, and hangs on a pipe: so the name is
  // one of this process, of a number that is free and stays so
  const auto module = load(constant_library(5));
  Dl_info info{};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(module->host_function(0)), &info), 0);
  const std::filesystem::path path = info.dli_fname;
  EXPECT_THAT(path.string(), StartsWith("/proc/" + std::to_string(getpid()) + "/fd/"));
  EXPECT_GE(std::stoi(path.filename().string()), 512);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(LoaderTest, ThreadsLoadAtOnce) {
  // J5: any thread
  const std::array<Library, 2> libraries{constant_library(1), constant_library(2)};
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < 8; ++k) {
    threads.emplace_back([&, k] {
      for (int round = 0; round < 20; ++round) {
        const auto module = load(libraries[k % 2]);
        EXPECT_EQ(run_constant(*module), static_cast<int>(k % 2) + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle::jit::testing
