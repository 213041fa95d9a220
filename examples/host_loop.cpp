// A host with its own event loop: the loop polls a file descriptor for the end of device work
// beside its other descriptors, and no host thread blocks in heddle.
#include <heddle/scheduler.hpp>

#include <poll.h>
#include <unistd.h>

#include <cstdio>

int main() {
  heddle::Scheduler scheduler;
  auto loader = scheduler.new_device("loader");
  auto worker = scheduler.new_device("worker");

  int sum = 0, pipe_ends[2];
  if (pipe(pipe_ends) != 0) return 1;
  auto loaded = loader.submit("load", [&] { sum = 40; });
  worker.wait(loaded);
  auto ended = worker.submit("step", [&] {
    sum += 2;
    return write(pipe_ends[1], "!", 1) == 1
               ? heddle::Status()
               : heddle::Status(heddle::ErrorCode::device_failed, "cannot write to the pipe");
  });

  auto signal = ended.fd();  // readable once the task has ended
  pollfd waiting[] = {{signal.get(), POLLIN, 0}, {pipe_ends[0], POLLIN, 0}};
  bool input_seen = false, end_seen = false;
  while (!input_seen || !end_seen) {
    if (poll(waiting, 2, -1) < 0) return 1;
    if (waiting[1].revents != 0) {
      input_seen = true;
      waiting[1].fd = -1;  // negative: poll ignores the entry from now on
    }
    if (waiting[0].revents != 0) {
      end_seen = true;
      waiting[0].fd = -1;
    }
  }
  std::printf("input from the task: yes\nresult: %d, %s\n", sum,
              ended.status().to_string().c_str());
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}
