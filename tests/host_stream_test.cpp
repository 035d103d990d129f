// What Python cannot reach of the host stream: exceptions of tasks, the queue's limit, many threads.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "host_stream.h"

using cudabench::HostEvent;
using cudabench::HostStream;

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

std::string left_by_synchronize(HostStream& stream) {
  try {
    stream.synchronize();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void a_failed_task_is_reported_once_by_the_next_synchronize() {
  HostStream stream;
  bool ran_after = false;
  stream.enqueue([] { throw std::runtime_error("first"); });
  stream.enqueue([] { throw std::runtime_error("second"); });
  stream.enqueue([&] { ran_after = true; });
  expect(left_by_synchronize(stream) == "first", "synchronize reports the first failure");
  expect(ran_after, "the stream goes on after a failure");
  expect(left_by_synchronize(stream).empty(), "a failure is reported once");
}

void enqueue_blocks_only_at_the_limit() {
  HostStream stream;
  std::promise<void> gate;
  std::promise<void> begun;
  stream.enqueue([&] {
    begun.set_value();
    gate.get_future().wait();
  });
  begun.get_future().wait();  // the worker has taken it: the queue itself is empty
  for (std::size_t i = 0; i < HostStream::kQueueLimit; ++i) stream.enqueue([] {});
  std::atomic<bool> queued{false};
  std::promise<void> about_to;
  std::thread another([&] {
    about_to.set_value();
    stream.enqueue([] {});
    queued = true;
  });
  about_to.get_future().wait();
  for (int i = 0; i < 10000; ++i) {  // time enough for it to go wrong, were it to
    expect(!queued, "a launch into a full queue waits");
    std::this_thread::yield();
  }
  gate.set_value();
  another.join();
  expect(queued, "it goes on once there is room");
  stream.synchronize();
}

void tasks_of_many_threads_all_run_one_at_a_time() {
  HostStream stream;
  int unguarded = 0;  // a race here is the sanitizer's to report
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) stream.enqueue([&] { ++unguarded; });
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();
  expect(unguarded == 4000, "every task ran");
}

void events_are_stamped_in_order() {
  HostStream stream;
  HostEvent first, second;
  expect(first.state() == HostEvent::State::kNeverRecorded, "a new event was never recorded");
  first.record(stream);
  second.record(stream);
  stream.synchronize();
  expect(first.state() == HostEvent::State::kComplete, "synchronize completes events");
  expect(first.timestamp_ns() <= second.timestamp_ns(), "the worker's clock does not go back");
}

void the_destructor_runs_what_is_queued() {
  int ran = 0;
  {
    HostStream stream;
    for (int i = 0; i < 100; ++i) stream.enqueue([&] { ++ran; });
  }
  expect(ran == 100, "nothing queued is lost");
}

}  // namespace

int main() {
  a_failed_task_is_reported_once_by_the_next_synchronize();
  enqueue_blocks_only_at_the_limit();
  tasks_of_many_threads_all_run_one_at_a_time();
  events_are_stamped_in_order();
  the_destructor_runs_what_is_queued();
  std::puts("all as expected");
}
