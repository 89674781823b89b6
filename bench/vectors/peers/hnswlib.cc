// A worker that answers with hnswlib; package worker says what the words mean.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "hnswlib/hnswlib.h"

using Words = std::map<std::string, std::string>;

// The kernel that hnswlib takes for dimensions that are a multiple of 16, as it decides itself.
static std::string simd() {
#if defined(USE_AVX512)
  if (AVX512Capable()) return "AVX-512";
#endif
#if defined(USE_AVX)
  if (AVXCapable()) return "AVX";
#endif
#if defined(USE_SSE)
  return "SSE";
#endif
  return "none";
}

static double cpu() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

static const std::string& need(const Words& w, const std::string& key) {
  auto at = w.find(key);
  if (at == w.end()) throw std::runtime_error("no " + key);
  return at->second;
}

static long number(const Words& w, const std::string& key) { return std::stol(need(w, key)); }

// A file of numbers, mapped.
template <typename T>
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    int fd = open(path.c_str(), O_RDONLY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) throw std::runtime_error("cannot open " + path);
    bytes_ = size_t(st.st_size);
    void* p = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p == MAP_FAILED) throw std::runtime_error("cannot map " + path);
    data_ = static_cast<const T*>(p);
  }
  ~Mapped() { munmap(const_cast<T*>(data_), bytes_); }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  const T* data() const { return data_; }
  size_t size() const { return bytes_ / sizeof(T); }

 private:
  const T* data_;
  size_t bytes_;
};

class Allowed : public hnswlib::BaseFilterFunctor {
 public:
  explicit Allowed(const std::string& path) : bits_(path) {}
  bool operator()(hnswlib::labeltype id) override { return bits_.data()[id >> 6] >> (id & 63) & 1; }

 private:
  Mapped<uint64_t> bits_;
};

class Worker {
 public:
  std::string data(const Words& w) {
    dim_ = size_t(number(w, "dim"));
    base_ = std::make_unique<Mapped<float>>(need(w, "base"));
    if (need(w, "metric") == "l2")
      space_ = std::make_unique<hnswlib::L2Space>(dim_);
    else  // of cosine, the vectors have length 1 already
      space_ = std::make_unique<hnswlib::InnerProductSpace>(dim_);
    return "";
  }

  std::string build(const Words& w) {
    size_t n = base_->size() / dim_;
    double from = cpu();
    graph_ = std::make_unique<hnswlib::HierarchicalNSW<float>>(space_.get(), n, size_t(number(w, "m")), size_t(number(w, "efc")), 100);
    for (size_t i = 0; i < n; i++) graph_->addPoint(base_->data() + i * dim_, i);
    double took = cpu() - from;
    std::ostringstream out;
    out << " cpu=" << took;
    return out.str();
  }

  std::string size() {
    if (!graph_) throw std::runtime_error("nothing is built");
    return " artifact=" + std::to_string(graph_->indexFileSize());
  }

  // With empty=1 everything happens but the search.
  std::string search(const Words& w, std::string& payload) {
    if (!graph_) throw std::runtime_error("nothing is built");
    Mapped<float> queries(need(w, "queries"));
    size_t n = size_t(number(w, "count")), k = size_t(number(w, "k"));
    if (n * dim_ > queries.size()) throw std::runtime_error("so many queries are not there");
    std::unique_ptr<Allowed> allowed;
    if (w.count("allowed")) allowed = std::make_unique<Allowed>(need(w, "allowed"));
    if (w.count("ef")) graph_->setEf(size_t(number(w, "ef")));
    bool empty = w.count("empty") != 0;
    std::vector<int32_t> ids(n * k, -1);
    double from = cpu();
    for (size_t i = 0; i < n; i++) {
      if (empty) continue;
      auto found = graph_->searchKnn(queries.data() + i * dim_, k, allowed.get());
      for (size_t j = found.size(); j > 0; j--) {
        ids[i * k + j - 1] = int32_t(found.top().second);
        found.pop();
      }
    }
    double took = cpu() - from;
    payload.assign(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
    std::ostringstream out;
    out.precision(9);
    out << " cpu=" << took;
    return out.str();
  }

 private:
  size_t dim_ = 0;
  std::unique_ptr<Mapped<float>> base_;
  std::unique_ptr<hnswlib::SpaceInterface<float>> space_;
  std::unique_ptr<hnswlib::HierarchicalNSW<float>> graph_;
};

int main() {
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string verb, word, payload;
    in >> verb;
    Words w;
    while (in >> word) {
      auto at = word.find('=');
      w[word.substr(0, at)] = at == std::string::npos ? "" : word.substr(at + 1);
    }
    try {
      std::string said;
      if (verb == "about")
        said = std::string(" version=" HNSWLIB_RELEASE " compiler=g++-" __VERSION__ " flags=-O3,-march=native simd=") + simd();
      else if (verb == "data")
        said = worker.data(w);
      else if (verb == "build")
        said = worker.build(w);
      else if (verb == "size")
        said = worker.size();
      else if (verb == "search")
        said = worker.search(w, payload);
      else
        throw std::runtime_error("unknown verb " + verb);
      for (char& c : said)
        if (c == '\n') c = ' ';
      std::cout << "ok" << said << " bytes=" << payload.size() << "\n" << payload << std::flush;
    } catch (const std::exception& e) {
      std::cout << "error " << e.what() << "\n" << std::flush;
    }
  }
}
