#include "host_stream.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "stamp.h"

namespace {

int64_t steady_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

namespace cudabench {

HostStream::HostStream() : worker_([this] { run(); }) {}

HostStream::~HostStream() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_queued_.notify_one();
  worker_.join();
}

void HostStream::enqueue(Task task) {
  std::deque<Task> finished;  // destroyed here, outside the lock
  {
    std::unique_lock<std::mutex> lock(mutex_);
    room_.wait(lock, [this] { return tasks_.size() < kQueueLimit; });
    tasks_.push_back(std::move(task));
    ++queued_;
    finished.swap(finished_);
  }
  work_queued_.notify_one();
}

void HostStream::launch(Task kernel) {
  if (!log_kept_) return enqueue(std::move(kernel));
  const auto entry = std::make_shared<Launched>();
  log_.push_back(entry);
  entry->called = steady_ns();
  enqueue([entry, kernel = std::move(kernel)] {
    entry->start = steady_ns();
    kernel();
    entry->end = steady_ns();
  });
  entry->returned = steady_ns();
}

void HostStream::keep_log(bool keep) {
  log_.clear();
  log_kept_ = keep;
}

std::vector<HostStream::Launched> HostStream::log() const {
  std::vector<Launched> launches;
  for (const auto& entry : log_) launches.push_back(*entry);
  return launches;
}

void HostStream::synchronize() {
  std::deque<Task> finished;
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t last = queued_;
  while (done_ < last) {
    awaited_ = std::min(awaited_, last);
    work_done_.wait(lock);
  }
  finished.swap(finished_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

uint64_t HostStream::queued() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queued_;
}

void HostStream::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    work_queued_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    if (tasks_.size() == kQueueLimit - 1) room_.notify_all();
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    finished_.push_back(std::move(task));
    if (error && !error_) error_ = error;
    if (++done_ < awaited_) continue;
    awaited_ = UINT64_MAX;
    work_done_.notify_all();
  }
}

struct HostEvent::Mark {
  std::atomic<bool> complete{false};
  int64_t timestamp_ns = 0;  // written before `complete`
};

void HostEvent::record(HostStream& stream) {
  mark_ = std::make_shared<Mark>();
  stream.enqueue([mark = mark_] {
    mark->timestamp_ns = steady_ns();
    mark->complete.store(true, std::memory_order_release);
  });
}

HostEvent::State HostEvent::state() const {
  if (!mark_) return State::kNeverRecorded;
  return mark_->complete.load(std::memory_order_acquire) ? State::kComplete : State::kPending;
}

int64_t HostEvent::timestamp_ns() const {
  if (state() != State::kComplete) throw std::logic_error("the event has not completed");
  return mark_->timestamp_ns;
}

HostStream& current_host_stream() {
  static HostStream stream;
  return stream;
}

}  // namespace cudabench

void launch_stamp(int64_t* stamps, int64_t ns, void* stream) {
  static_cast<cudabench::HostStream*>(stream)->launch([=] {
    const int64_t start = steady_ns();
    int64_t now = start;
    while (now - start < ns) now = steady_ns();
    stamps[0] = start;
    stamps[1] = now;
  });
}

// The functions that cudabench/device calls through ctypes. Event handles are HostEvent pointers.
extern "C" {

// Returns 0, or -1 with the text of the first exception that a task left since the last call.
int cudabench_synchronize(char* message, std::size_t size) {
  try {
    cudabench::current_host_stream().synchronize();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(message, size, "%s", error.what());
  } catch (...) {
    std::snprintf(message, size, "a task threw something that is no std::exception");
  }
  return -1;
}

int64_t cudabench_queued() {
  return static_cast<int64_t>(cudabench::current_host_stream().queued());
}

void cudabench_keep_log(int keep) { cudabench::current_host_stream().keep_log(keep != 0); }

// Copies up to `capacity` of the log's launches into `launches`, four numbers each, and returns
// how many there are. Call cudabench_synchronize first.
int64_t cudabench_log(int64_t* launches, int64_t capacity) {
  const auto log = cudabench::current_host_stream().log();
  const auto count = std::min<int64_t>(capacity, log.size());
  for (int64_t i = 0; i < count; ++i) {
    const auto& one = log[static_cast<std::size_t>(i)];
    for (const int64_t ns : {one.called, one.returned, one.start, one.end}) *launches++ = ns;
  }
  return static_cast<int64_t>(log.size());
}

// Keeps the worker from what is queued behind it until the host sets flags[0]. It gives up after
// limit_ns, and sets flags[1] then. flags: two int32 that outlive the hold. Returns 0.
int cudabench_hold(int32_t* flags, int64_t limit_ns, void* /*stream*/) {
  cudabench::current_host_stream().enqueue([=] {
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::nanoseconds(limit_ns);
    // Yielding, not waiting on a condition: its waking would be part of what comes next.
    while (reinterpret_cast<std::atomic<int32_t>*>(flags)->load() == 0) {
      if (Clock::now() > end) {
        flags[1] = 1;
        return;
      }
      std::this_thread::yield();
    }
  });
  return 0;
}

void* cudabench_event_create() { return new cudabench::HostEvent; }

void cudabench_event_destroy(void* event) { delete static_cast<cudabench::HostEvent*>(event); }

void cudabench_event_record(void* event) {
  static_cast<cudabench::HostEvent*>(event)->record(cudabench::current_host_stream());
}

// Returns 1 where the event is complete, 0 where it is pending, -1 where it was never recorded.
int cudabench_event_query(void* event) {
  switch (static_cast<cudabench::HostEvent*>(event)->state()) {
    case cudabench::HostEvent::State::kComplete:
      return 1;
    case cudabench::HostEvent::State::kPending:
      return 0;
    default:
      return -1;
  }
}

// Both events must be complete: ask cudabench_event_query first.
int64_t cudabench_event_elapsed_ns(void* start, void* end) {
  return static_cast<cudabench::HostEvent*>(end)->timestamp_ns() -
         static_cast<cudabench::HostEvent*>(start)->timestamp_ns();
}

}  // extern "C"
