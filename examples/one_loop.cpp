// A host's own scheduler runs the host's tasks and heddle's routines in the host's loop, on the
// host's thread. Readings arrive, a routine smooths them, and the host prints the results.
#include <heddle/heddle.hpp>

#include <poll.h>

#include <cstdio>
#include <vector>

int main() {
  heddle::Scheduler scheduler;
  heddle::sched::DeviceOptions in_loop;
  in_loop.name = "host";
  in_loop.mode = heddle::sched::Mode::manual;
  const auto host = scheduler.new_device(in_loop);  // for the host's own tasks

  heddle::BackendOptions options;
  options.scheduler = scheduler;  // the backend's devices join the host's scheduler
  options.mode = heddle::sched::Mode::manual;
  const auto backend = heddle::Backend::open(options);
  const auto device = backend.physical_device(0).new_virtual_device();

  const heddle::Tensor reading("reading", heddle::f32, {2}), smooth("smooth", heddle::f32, {2});
  const heddle::Index i;
  heddle::Program average("average");
  average << (smooth(i) = smooth(i) * 0.5 + reading(i) * 0.5);
  const auto run = heddle::Context(device).link(backend.compile(average));
  const auto readings = run.context().view(reading), smoothed = run.context().view(smooth);

  std::vector<float> in{8, 4}, out(2);
  int told = 0;
  for (int k = 0; k < 3; ++k) {
    readings.from_host(device, std::as_bytes(std::span(in)));
    run.schedule();
    const auto read = smoothed.to_host(device, std::as_writable_bytes(std::span(out)));
    heddle::sched::SubmitOptions after;
    after.after = {read};
    host.submit("tell", [&] { std::printf("smooth: %g %g\n", out[0], out[1]), ++told; }, after);
    // Tasks run only from here on: the host's loop, where the host would poll its other sources
    // too.
    pollfd ready{scheduler.descriptor(), POLLIN, 0};
    while (told == k && poll(&ready, 1, -1) == 1) scheduler.poll();
  }
  backend.finalize();  // ends the backend's devices; the scheduler is the host's
  const auto last = host.submit("last", [] { std::printf("the host goes on\n"); });
  while (!last.done()) scheduler.poll();
}
