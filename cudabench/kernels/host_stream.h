#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace cudabench {

// What a CUDA stream is to a GPU, for the CPU: one worker thread that runs queued tasks in the
// order they were queued, while the thread that queued them goes on. Nothing is simulated.
class HostStream {
 public:
  using Task = std::function<void()>;

  // About a thousand launches wait, as on a CUDA stream, before the next one blocks: each is two
  // tasks (add2.cpp).
  static constexpr std::size_t kQueueLimit = 2048;

  HostStream();
  ~HostStream();  // runs what is queued, then ends the worker
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;

  // Returns once the task is queued; blocks only while kQueueLimit tasks are waiting.
  void enqueue(Task task);

  // Enqueues a kernel: what is written down while the log is kept.
  void launch(Task kernel);

  // When a launch was called and returned, and its kernel started and ended: steady clock, ns.
  struct Launched {
    int64_t called, returned, start, end;
  };

  // Begins an empty log, or ends it. For the thread that launches alone.
  void keep_log(bool keep);

  // The launches since the log was begun; complete once the stream has been synchronized.
  std::vector<Launched> log() const;

  // Returns once every task queued before it has run. Rethrows the first exception that a task
  // left since the last call, as CUDA reports a failed kernel at the next synchronize.
  void synchronize();

  // How many tasks were ever queued.
  uint64_t queued();

  // What a task holds is released by the threads that call these two, never by the worker:
  // releasing a tensor may take Python's lock, and the worker must not wait for that.

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable work_queued_;
  std::condition_variable work_done_;  // told only when awaited_ is reached: each telling takes
                                       // the worker a system call between two tasks
  std::condition_variable room_;
  std::deque<Task> tasks_;
  std::deque<Task> finished_;
  uint64_t queued_ = 0;
  uint64_t done_ = 0;
  uint64_t awaited_ = UINT64_MAX;  // the least count that a synchronize waits for
  bool stopping_ = false;
  std::exception_ptr error_;
  bool log_kept_ = false;
  std::vector<std::shared_ptr<Launched>> log_;  // each is shared with its task
  std::thread worker_;
};

// A point in a stream's order that carries the worker's clock once the worker has passed it.
class HostEvent {
 public:
  enum class State { kNeverRecorded, kPending, kComplete };

  void record(HostStream& stream);
  State state() const;
  // The worker's steady clock. Throws std::logic_error unless the event is complete.
  int64_t timestamp_ns() const;

 private:
  struct Mark;
  std::shared_ptr<Mark> mark_;  // shared with the worker: an event may be dropped while pending
};

// The stream that every launch of this process goes to.
HostStream& current_host_stream();

}  // namespace cudabench
