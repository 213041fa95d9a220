// Golden files: a dozen programs through every stage, as text. A file per program, NAME.txt beside
// this file. After a change that is meant to alter them, run this test with HEDDLE_TEST_UPDATE=1,
// which rewrites the files, and read the difference before the commit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "golden_programs.hpp"
#include "jit/emit/c.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "tests/support/paths.hpp"

namespace heddle::jit {
namespace {

LoopNames names_of(const Lowered& lowered) {
  LoopNames names;
  for (const Tensor& tensor : lowered.tensors) names.buffers.push_back(tensor.label());
  for (const StaticIndex& index : lowered.statics) names.statics.push_back(index.label());
  return names;
}

std::string show(std::string_view stage, const Lowered& lowered) {
  const LoopNames names = names_of(lowered);
  return "== " + std::string(stage) + "\n" + print(lowered.loop, &names);
}

/// The C text of the kernel alone: the preamble is the same for every kernel.
std::string c_text(const std::string& name, const Lowered& lowered) {
  const KernelSource kernel{
      .name = name, .loop = lowered.verified, .names = names_of(lowered), .lanes = lowered.lanes};
  const std::string text = emit_c({name, {kernel}, false});
  const std::size_t abi = text.find(unit_abi_symbol);
  return text.substr(text.find("EXPORT void", abi));
}

/// Every stage of a program; source positions are omitted, because every edit moves them.
std::string stages(const Program& program) {
  std::string text = "== program\n" + program.to_string();
  if (!text.ends_with('\n')) text += '\n';
  const Lowered lowered = lower(program);
  text += show("lower", lowered);
  const Lowered final = optimize(
      lowered, {}, [&](std::string_view pass, const Lowered& l) { text += show(pass, l); });
  text += "== placements\n";
  for (const auto& [tensor, placement] : final.placements) {
    text += tensor.label() + ": " + std::string(name(placement.mode));
    if (!placement.provenance.empty()) text += " (" + placement.provenance + ")";
    text += '\n';
  }
  text += "== signature\n" + make_signature(final).serialize();
  text += "== hash\n" + hash(final.loop) + "\n";
  text += "== C\n" + c_text(program.name(), final);
  // A fixed target, which keeps the text the same on every machine.
  const Target target{Isa::avx512, 48 << 10, 2 << 20, 32 << 20};
  const Lowered scheduled = schedule(final, target);
  if (!(scheduled.loop == final.loop)) text += show("scheduled for avx512", scheduled);
  const std::string_view file = "golden_programs.cpp:";
  std::string hidden;
  std::size_t from = 0;
  for (auto at = text.find(file); at != std::string::npos; at = text.find(file, from)) {
    const std::size_t before = text.find_last_of(" (", at) + 1;  // npos + 1 is the beginning
    hidden += text.substr(from, before - from) + "<source>";
    from = std::min(text.find_first_not_of("0123456789", at + file.size()), text.size());
  }
  return hidden + text.substr(from);
}

class GoldenTest : public ::testing::TestWithParam<Golden> {};

// J4, J5, J9, O26
TEST_P(GoldenTest, StagesReadAsRecorded) {
  const auto file = std::filesystem::path(test::source_root) / "tests/golden" /
                    (std::string(GetParam().name) + ".txt");
  const std::string found = stages(GetParam().describe());
  if (std::getenv("HEDDLE_TEST_UPDATE") != nullptr) {
    std::ofstream(file) << found;
    return;
  }
  std::ifstream in(file);
  ASSERT_TRUE(in) << file << " is missing; HEDDLE_TEST_UPDATE=1 writes it";
  const std::string recorded((std::istreambuf_iterator<char>(in)),
                             std::istreambuf_iterator<char>());
  EXPECT_EQ(found, recorded) << "HEDDLE_TEST_UPDATE=1 accepts the new text";
}

// J5: the text does not depend on earlier programs
TEST_P(GoldenTest, TextIsTheSameAfterAHundredUnrelatedTensors) {
  const std::string before = stages(GetParam().describe());
  std::vector<Tensor> unrelated;
  for (int k = 0; k < 100; ++k) unrelated.emplace_back("unrelated", f32, Dims{k});
  EXPECT_EQ(stages(GetParam().describe()), before);
}

INSTANTIATE_TEST_SUITE_P(Programs, GoldenTest, ::testing::ValuesIn(golden_programs()),
                         [](const auto& golden) { return std::string(golden.param.name); });

}  // namespace
}  // namespace heddle::jit
