// oneTBB's flow graph: a serial node is its in-order queue, an edge orders tasks. A thread of an
// arena that the host does not join makes the graphs, because a graph runs where it was made; the
// worker is therefore a separate thread, as in heddle.
#include <tbb/flow_graph.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <vector>

#include "tools/bench/rival_tbb.hpp"
#include "tools/bench/worker_rival.hpp"

namespace heddle::bench {
namespace {

/// The message of a node: a function and its data, copied as bytes.
struct Message {
  template <class F>
  explicit Message(F f) {
    static_assert(sizeof(F) <= sizeof(callable) && std::is_trivially_copyable_v<F>);
    ::new (static_cast<void*>(callable)) F(f);
    invoke = [](void* bytes) { (*static_cast<F*>(bytes))(); };
  }
  Message() = default;
  void operator()() { invoke(callable); }

  void (*invoke)(void*) = nullptr;
  alignas(16) std::byte callable[16] = {};
};

/// Makes a G in the arena.
template <class G>
std::unique_ptr<G> make_inside(TbbArena& arena, EndedCount& ended) {
  std::unique_ptr<G> made;
  EndedCount is_made;
  arena.enqueue([&] {
    made = std::make_unique<G>(ended);
    is_made.add();
  });
  is_made.wait(1);
  return made;
}

class FlowWorker {
 public:
  static constexpr const char* name = "oneTBB flow graph";
  static constexpr Kind kind = Kind::rival;

  explicit FlowWorker(int k) : arena_(k), chain_(make_inside<Chain>(arena_, ended_)) {}

  /// Any thread.
  template <class F>
  void submit(F f) {
    chain_->node.try_put(Message(f));
  }
  void wait_ended(std::uint64_t count) const { ended_.wait(count); }

 private:
  struct Chain {
    explicit Chain(EndedCount& ended)
        : node(graph, tbb::flow::serial, [&ended](Message message) {
            message();
            ended.add();
            return tbb::flow::continue_msg();
          }) {}
    tbb::flow::graph graph;
    tbb::flow::function_node<Message, tbb::flow::continue_msg> node;
  };

  EndedCount ended_;
  TbbArena arena_;
  std::unique_ptr<Chain> chain_;
};

/// One node, then eight nodes, then one node.
class FlowFan {
 public:
  explicit FlowFan(EndedCount& ended)
      : root_(graph_, [](const Token&) { return Token(); }),
        join_(graph_, [this, &ended](const Token&) {
          ++joined;
          ended.add();
          return Token();
        }) {
    for (int k = 0; k < fan_width; ++k) {
      leaves_.push_back(std::make_unique<Node>(graph_, [](const Token&) { return Token(); }));
      tbb::flow::make_edge(root_, *leaves_.back());
      tbb::flow::make_edge(*leaves_.back(), join_);
    }
  }
  void start() { root_.try_put(Token()); }

  std::uint64_t joined = 0;  // written by the workers, one after another

 private:
  using Token = tbb::flow::continue_msg;
  using Node = tbb::flow::continue_node<Token>;
  tbb::flow::graph graph_;
  Node root_;
  std::vector<std::unique_ptr<Node>> leaves_;
  Node join_;
};

Contender fan() {
  return {FlowWorker::name, FlowWorker::kind, [](nanoseconds length, Samples& samples) {
            EndedCount ended;
            TbbArena arena(worker_processor, workers_beside_host());
            std::unique_ptr<FlowFan> graph;
            {
              const Unpinned while_starting;
              graph = make_inside<FlowFan>(arena, ended);
            }
            std::uint64_t rounds = 0;
            const auto once = [&] {
              graph->start();
              ended.wait(++rounds);
            };
            once();
            const double ns = timed_operations(length, samples, once);
            require_all_ran(FlowWorker::name, graph->joined, rounds);
            return ns;
          }};
}

}  // namespace

Rival tbb_flow_rival() {
  Rival rival;
  rival.submit = submit_contender<FlowWorker>();
  rival.round_trip = round_trip_contender<FlowWorker>();
  rival.posted_hop = posted_hop_contender<FlowWorker>();
  rival.fan = fan();
  return rival;
}

}  // namespace heddle::bench
