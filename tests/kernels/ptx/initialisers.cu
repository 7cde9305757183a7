// What nvcc 13.0 makes of arrays of arrays of a class with default member initialisers: it applies
// them to the first row and zeroes the others. miscompilations_test.cc runs this;
// kernels/attention/shared/select.h has the way out, which is a constructor with a body.

struct Initialised {
  int count = 7;
  float least = 2.0f;
};

struct Constructed {
  __device__ Constructed() {}
  int count = 7;
  float least = 2.0f;
};

template <class T>
__device__ void Write(float* to) {
  T rows[2][3];
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 3; ++j) {
      *to++ = static_cast<float>(rows[i][j].count);
      *to++ = rows[i][j].least;
    }
  }
}

__global__ void WriteInitialised(float* to) { Write<Initialised>(to); }
__global__ void WriteConstructed(float* to) { Write<Constructed>(to); }
