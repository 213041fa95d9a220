// The rival from network programs: Boost.Asio. A thread_pool(1), whose size says that one thread
// runs it, and post(), as documented for background work.
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "tools/bench/worker_rival.hpp"

namespace heddle::bench {
namespace {

class AsioWorker {
 public:
  static constexpr const char* name = "Boost.Asio post";
  static constexpr Kind kind = Kind::rival;

  explicit AsioWorker(int k) {
    boost::asio::post(pool_, [k] { pin_this_thread(k); });
  }
  AsioWorker(const AsioWorker&) = delete;
  AsioWorker& operator=(const AsioWorker&) = delete;
  ~AsioWorker() { pool_.join(); }

  /// Any thread.
  template <class F>
  void submit(F f) {
    boost::asio::post(pool_, [this, f] {
      f();
      ended_.add();
    });
  }
  void wait_ended(std::uint64_t count) const { ended_.wait(count); }

 private:
  EndedCount ended_;
  boost::asio::thread_pool pool_{1};
};

}  // namespace

Rival asio_rival() { return worker_rival<AsioWorker>(); }

}  // namespace heddle::bench
