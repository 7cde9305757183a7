// Sends requests, and counts what comes back in time:
//   bench_load ADDRESS closed|open VALUE SECONDS DEADLINE_MS REQUEST_FILE...
// closed: VALUE requests are always under way. open: VALUE requests a second, at random (Poisson),
// whatever the server does; a request that would be sent while kMostUnderWay are under way is
// counted as unsent. A REQUEST_FILE holds a serialized inference.ModelInferRequest; of several each
// is sent equally often, in turn. Prints one line of JSON; latencies are those of answers, and what
// was in time is counted for each REQUEST_FILE too, in their order.
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostUnderWay = 4'000;
constexpr int kChannels = 4;
constexpr char kMethod[] = "/inference.GRPCInferenceService/ModelInfer";

class Load {
 public:
  Load(const std::string& address, const std::vector<std::string>& requests,
       std::chrono::milliseconds deadline)
      : deadline_(deadline) {
    for (const std::string& request : requests) requests_.push_back(Slices(request));
    in_time_of_each_.resize(requests.size());
    for (int i = 0; i < kChannels; ++i) {
      grpc::ChannelArguments arguments;
      arguments.SetInt("channel", i);  // or they would share one connection
      arguments.SetMaxReceiveMessageSize(-1);
      stubs_.push_back(std::make_unique<grpc::GenericStub>(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments)));
    }
  }

  // Keeps `concurrency` requests under way until `end`.
  void Closed(int concurrency, Clock::time_point end) {
    for (int i = 0; i < concurrency; ++i) SendAgainUntil(end);
    Settle();
  }

  void Open(double per_second, Clock::time_point end) {
    std::mt19937_64 random(1);
    std::exponential_distribution<double> gap(per_second);
    for (Clock::time_point next = Clock::now(); next < end;
         next += std::chrono::nanoseconds(static_cast<int64_t>(gap(random) * 1e9))) {
      std::this_thread::sleep_until(next);
      if (under_way_ < kMostUnderWay) {
        Send([] {});
      } else {
        std::lock_guard lock(mutex_);
        ++unsent_;
      }
    }
    Settle();
  }

  nlohmann::json Report(double seconds) {
    std::lock_guard lock(mutex_);
    std::sort(latencies_ms_.begin(), latencies_ms_.end());
    const auto quantile = [&](double q) {
      return latencies_ms_.empty() ? 0.0
                                   : latencies_ms_[static_cast<size_t>(
                                         q * static_cast<double>(latencies_ms_.size() - 1))];
    };
    std::vector<double> percentiles;  // 0 to 99, then 99.9
    for (int percent = 0; percent < 100; ++percent)
      percentiles.push_back(quantile(percent / 100.0));
    percentiles.push_back(quantile(0.999));
    std::vector<double> in_time_of_each;
    for (const int64_t in_time : in_time_of_each_) {
      in_time_of_each.push_back(static_cast<double>(in_time) / seconds);
    }
    return {{"seconds", seconds},
            {"unsent", unsent_},
            {"codes", codes_},
            {"in_time_per_second", static_cast<double>(in_time_) / seconds},
            {"in_time_of_each_per_second", in_time_of_each},
            {"p50_ms", quantile(0.5)},
            {"p99_ms", quantile(0.99)},
            {"percentiles_ms", percentiles}};
  }

 private:
  struct Call {
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
    Clock::time_point sent;
  };

  static grpc::ByteBuffer Slices(const std::string& bytes) {
    const grpc::Slice slice(bytes);
    return grpc::ByteBuffer(&slice, 1);
  }

  template <typename Then>
  void Send(Then then) {
    ++under_way_;
    auto call = std::make_shared<Call>();
    const unsigned number = next_++;
    const size_t which = number % requests_.size();
    call->request = requests_[which];  // shares the slices
    call->sent = Clock::now();
    call->context.set_deadline(std::chrono::system_clock::now() + deadline_);
    grpc::GenericStub& stub = *stubs_[number / requests_.size() % kChannels];
    stub.UnaryCall(&call->context, kMethod, {}, &call->request, &call->response,
                   [this, call, which, then](const grpc::Status& status) {
                     Count(which, status, Clock::now() - call->sent);
                     then();
                     if (--under_way_ == 0) {
                       std::lock_guard lock(mutex_);
                       settled_.notify_all();
                     }
                   });
  }

  void SendAgainUntil(Clock::time_point end) {
    if (Clock::now() < end) Send([this, end] { SendAgainUntil(end); });
  }

  void Count(size_t which, const grpc::Status& status, Clock::duration took) {
    std::lock_guard lock(mutex_);
    ++codes_[std::to_string(status.error_code())];
    if (!status.ok()) return;
    latencies_ms_.push_back(std::chrono::duration<double, std::milli>(took).count());
    in_time_ += took <= deadline_;
    in_time_of_each_[which] += took <= deadline_;
  }

  void Settle() {
    std::unique_lock lock(mutex_);
    settled_.wait(lock, [this] { return under_way_ == 0; });
  }

  std::vector<grpc::ByteBuffer> requests_;
  const std::chrono::milliseconds deadline_;
  std::vector<std::unique_ptr<grpc::GenericStub>> stubs_;
  std::atomic<unsigned> next_{0};
  std::atomic<int> under_way_{0};
  std::mutex mutex_;
  std::condition_variable settled_;
  std::map<std::string, int64_t> codes_;
  std::vector<double> latencies_ms_;
  int64_t in_time_ = 0;
  std::vector<int64_t> in_time_of_each_;
  int64_t unsent_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "bench_load ADDRESS closed|open VALUE SECONDS DEADLINE_MS FILE...\n");
    return 2;
  }
  const bool open = std::string(argv[2]) == "open";
  const double value = std::stod(argv[3]), seconds = std::stod(argv[4]);
  std::vector<std::string> requests;
  for (int i = 6; i < argc; ++i) {
    std::ostringstream request;
    request << std::ifstream(argv[i], std::ios::binary).rdbuf();
    requests.push_back(request.str());
  }
  Load load(argv[1], requests, std::chrono::milliseconds(std::stol(argv[5])));
  const auto end = Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
  if (open) {
    load.Open(value, end);
  } else {
    load.Closed(static_cast<int>(value), end);
  }
  std::printf("%s\n", load.Report(seconds).dump().c_str());
}
