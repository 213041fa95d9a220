// best-cut: compares graphs as heddle compiles them to the best choice of nodes that keep() stores,
// found by trying all. Run by hand:
//   best-cut [--graphs N] [--seed S] [--nodes MOST] [FILE of a graph's text]
// It prints a line for each graph, and the worst ten with their texts and best choices.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle::bench {
namespace {

/// Graphs of matrices, rows and columns, as users of networks and statistics write them.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint64_t seed) : random_(seed) {}

  Graph make(int operations) {
    Graph g("cut");
    n_ = std::int64_t{64} << below(3);
    for (int k = 0; k < 3; ++k)
      all_.push_back(g.parameter("p" + std::to_string(k), {f32, {n_, n_}}));
    for (int k = 0; k < operations; ++k) all_.push_back(next());
    std::vector<Node> results{all_.back()};
    if (below(4) == 0) results.push_back(all_[all_.size() - 2]);
    g.finish(results);
    return g;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  /// The latest nodes are the likeliest.
  const Node& any() {
    return all_[all_.size() - 1 - std::min(below(all_.size()), below(all_.size()))];
  }
  bool is_matrix(const Node& x) const {
    return x.rank() == 2 && x.dims()[0] == n_ && x.dims()[1] == n_;
  }
  const Node& matrix() {
    for (;;) {
      if (const Node& x = any(); is_matrix(x)) return x;
    }
  }
  Node next() {
    switch (below(16)) {
      case 0:
      case 1:
      case 2:
        return matmul(matrix(), matrix());
      case 3:
        return matmul(matrix(), transpose(matrix()));
      case 4:
        return any() + any();
      case 5:
        return any() * any();
      case 6:
        return any() - 0.5F * any();
      case 7:
        return tanh(any());
      case 8:
        return exp(-abs(any()));
      case 9:
        return relu(any());
      case 10:
        return sum(matrix(), 1, {.keep = true}) * (1.0F / 64);
      case 11:
        return maximum(matrix(), 0, {.keep = true});
      case 12:
        return mean(matrix() * matrix(), below(2), {.keep = true});
      case 13:
        return transpose(matrix());
      case 14: {
        const auto halves = split(matrix(), 2, 1);
        return concatenate({halves[1], halves[0] * halves[1]}, 1);
      }
      default:
        return rsqrt(abs(any()) + 1);
    }
  }

  std::mt19937_64 random_;
  std::int64_t n_ = 0;
  std::vector<Node> all_;
};

/// The nodes of a graph's text that compute something and are no results: "v7".
std::vector<std::string> candidates_of(const std::string& text) {
  static const std::set<std::string> moves{"parameter", "constant",  "iota", "broadcast",
                                           "reshape",   "transpose", "slice"};
  std::vector<std::string> found;
  std::string results;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("results")) results = line + ",";
    if (!line.starts_with("v")) continue;
    const std::string name = line.substr(0, line.find(' '));
    const std::size_t from = line.find("= ") + 2;
    const std::string kind = line.substr(from, line.find_first_of(" .(", from) - from);
    if (!moves.contains(kind)) found.push_back(name);
  }
  std::erase_if(found, [&](const std::string& name) {
    return results.find(" " + name + ",") != std::string::npos;
  });
  return found;
}

std::string with_keeps(const std::string& text, const std::vector<std::string>& candidates,
                       std::size_t mask) {
  std::string keeps;
  for (std::size_t k = 0; k < candidates.size(); ++k)
    if ((mask >> k & 1) != 0) keeps += "keep " + candidates[k] + "\n";
  const std::size_t at = text.rfind("results");
  return text.substr(0, at) + keeps + text.substr(at);
}

class Runner {
 public:
  /// An inline device: with more processors, what is cut may run in parts, and what is not may not.
  Runner()
      : backend_(Backend::open("sync_cc")),
        device_(backend_.physical_device(0).new_virtual_device()) {}

  struct Cut {
    std::size_t mask = 0;
    std::vector<Routine> routine{};
    double seconds = 1e9;
  };

  /// All choices whose code differs.
  std::vector<Cut> cuts(const std::string& text, const std::vector<std::string>& candidates) {
    std::vector<Cut> found;
    std::set<std::string> hashes;
    std::vector<GraphProgram> lowered;
    std::vector<Program> programs;
    for (std::size_t mask = 0; mask < (std::size_t{1} << candidates.size()); ++mask) {
      lowered.push_back(Graph::parse(with_keeps(text, candidates, mask)).program());
      programs.push_back(lowered.back().program);
    }
    for (std::size_t mask = 0; mask < programs.size(); ++mask) {
      const Code code = backend_.compile(programs[mask]);
      if (!hashes.insert(code.hash()).second) continue;
      Cut cut{mask};
      cut.routine.push_back(Context(device_).link(code));
      std::uint64_t seed = 1;
      for (const Tensor& parameter : lowered[mask].parameters) {
        if (!cut.routine[0].context().contains(parameter)) continue;
        const HostArray values = HostArray::uniform(parameter.type(), seed++);
        std::vector<float> small(values.values<float>().begin(), values.values<float>().end());
        for (float& v : small) v = (v - 0.5F) * 0.2F;
        cut.routine[0].context().write(parameter, small);
      }
      found.push_back(std::move(cut));
    }
    return found;
  }

  void time(Cut& cut, double least = 1e-3) {
    using Clock = std::chrono::steady_clock;
    const Routine& run = cut.routine[0];
    run.schedule().wait();
    int times = 1;
    for (int round = 0; round < 5;) {
      const auto from = Clock::now();
      Event last;
      for (int k = 0; k < times; ++k) last = run.schedule();
      last.wait();
      const double took = std::chrono::duration<double>(Clock::now() - from).count();
      if (took < least) {
        times *= 2;
        continue;
      }
      cut.seconds = std::min(cut.seconds, took / times);
      ++round;
    }
  }

 private:
  Backend backend_;
  Device device_;
};

struct Found {
  double ratio = 1;
  std::string name, text;
};

Found compare(Runner& runner, const std::string& name, const std::string& text, std::size_t most) {
  const auto candidates = candidates_of(text);
  if (candidates.empty() || candidates.size() > most) return {};
  auto cuts = runner.cuts(text, candidates);
  for (Runner::Cut& cut : cuts) runner.time(cut, 3e-4);
  std::ranges::sort(cuts.begin() + 1, cuts.end(), {}, &Runner::Cut::seconds);
  // The best few again, beside the plain one: of many measured times the least is luck.
  const std::size_t again = std::min<std::size_t>(cuts.size(), 4);
  for (std::size_t k = 0; k < again; ++k) cuts[k].seconds = 1e9;
  for (int round = 0; round < 3; ++round)
    for (std::size_t k = 0; k < again; ++k) runner.time(cuts[k]);
  std::size_t best = 0;
  for (std::size_t k = 0; k < again; ++k)
    if (cuts[k].seconds < cuts[best].seconds) best = k;
  std::string keeps;
  for (std::size_t k = 0; k < candidates.size(); ++k)
    if ((cuts[best].mask >> k & 1) != 0) keeps += " " + candidates[k];
  const double ratio = cuts[0].seconds / cuts[best].seconds;
  std::printf("%-12s %2zu candidates %4zu codes  %9.2f us  best %9.2f us  ratio %.2f  keep%s\n",
              name.c_str(), candidates.size(), cuts.size(), cuts[0].seconds * 1e6,
              cuts[best].seconds * 1e6, ratio, keeps.c_str());
  std::fflush(stdout);
  return {ratio, name, text + "best: keep" + keeps + "\n"};
}

int run(int argc, char** argv) {
  int graphs = 100;
  std::uint64_t seed = 1;
  std::size_t most = 7;
  std::string file;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    const auto number = [&] { return k + 1 < argc ? std::strtoull(argv[++k], nullptr, 10) : 0; };
    if (word == "--graphs")
      graphs = static_cast<int>(number());
    else if (word == "--seed")
      seed = number();
    else if (word == "--nodes")
      most = number();
    else
      file = word;
  }
  Runner runner;
  if (!file.empty()) {
    std::ifstream in(file);
    compare(runner, file, std::string((std::istreambuf_iterator<char>(in)), {}), 12);
    return 0;
  }
  std::vector<Found> all;
  for (int k = 0; k < graphs; ++k, ++seed) {
    const Graph g = RandomGraph(seed).make(4 + static_cast<int>(seed % 6));
    Found found = compare(runner, "seed " + std::to_string(seed), g.to_string(), most);
    if (!found.name.empty()) all.push_back(std::move(found));
  }
  std::ranges::sort(all, std::greater(), &Found::ratio);
  for (std::size_t k = 0; k < std::min<std::size_t>(10, all.size()); ++k)
    std::printf("\n%s ratio %.2f\n%s", all[k].name.c_str(), all[k].ratio, all[k].text.c_str());
  if (!all.empty())
    std::printf("\n%zu graphs: median %.2f, worst %.2f\n", all.size(), all[all.size() / 2].ratio,
                all.front().ratio);
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) try {
  return heddle::bench::run(argc, argv);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
