package distance_test

import (
	"context"
	"fmt"

	"github.com/overlakedb/overlake"
	"github.com/overlakedb/overlake/distance"
)

func ExampleDevice_Pair() {
	d, err := distance.Auto.Pair(distance.L2, []float32{0, 0}, []float32{3, 4})
	fmt.Println(d, err)
	_, err = distance.Auto.Pair(distance.L2, []float32{0, 0}, []float32{3})
	fmt.Println(overlake.KindOf(err), "-", err)
	// Output:
	// 5 <nil>
	// invalid - a vector of 2 elements and one of 1 have no distance
}

func ExampleDevice_Batch() {
	query := []float32{1, 0}
	rows := []float32{
		2, 0,
		0, 5,
		-1, 0,
	}
	d, _ := distance.Auto.Batch(distance.Cosine, query, rows, nil)
	fmt.Println(d)
	// The result can lie in memory that is there already.
	d, _ = distance.Auto.Batch(distance.NegativeInnerProduct, query, rows, d)
	fmt.Println(d)
	// Output:
	// [0 1 2]
	// [-2 0 1]
}

func ExampleDevice_Matrix() {
	queries := []float32{0, 0, 1, 1} // two of 2 elements
	rows := []float32{0, 1, 2, 2, 1, 1}
	d, _ := distance.Auto.Matrix(context.Background(), distance.L1, 2, queries, rows, nil)
	fmt.Println(d[:3], d[3:])
	// Output: [1 4 2] [1 2 0]
}

func ExampleDevice_Nearest() {
	queries := []float32{0, 0, 9, 9}
	rows := []float32{1, 0, 8, 9, 0, 2, 7, 7}
	near, _ := distance.Auto.Nearest(context.Background(), distance.SquaredL2, 2, 2, queries, rows)
	for q := range 2 {
		fmt.Println(near.Of(q))
	}
	// Output:
	// [0 2] [1 4]
	// [1 3] [1 8]
}

func ExampleDevice_BatchBits() {
	d, _ := distance.Auto.BatchBits(distance.Hamming, []byte{0b1100_0000}, []byte{0b1000_0000, 0b0011_0000}, nil)
	fmt.Println(d)
	d, _ = distance.Auto.BatchBits(distance.Jaccard, []byte{0b1100_0000}, []byte{0b1000_0000, 0b0011_0000}, nil)
	fmt.Println(d)
	// Output:
	// [1 4]
	// [0.5 1]
}

func ExampleDevice_PairSparse() {
	a := distance.Sparse{Dim: 30_522, Indices: []int32{17, 2040}, Values: []float32{1, 0.5}}
	b := distance.Sparse{Dim: 30_522, Indices: []int32{3, 17}, Values: []float32{2, 4}}
	fmt.Println(distance.Auto.PairSparse(distance.NegativeInnerProduct, a, b))
	// Output: -4 <nil>
}

func ExampleTopK() {
	fmt.Println(distance.TopK([]float32{0.5, 0.1, 0.9, 0.1}, 3))
	// Output: [1 3 0] [0.1 0.1 0.5] <nil>
}

func ExampleDevice_Normalize() {
	rows := []float32{3, 4, 0, 2}
	fmt.Println(distance.Auto.Normalize(2, rows), rows)
	// Output: <nil> [0.6 0.8 0 1]
}

func ExampleDevice_KMeans() {
	points := []float32{0, 0, 0, 1, 1, 0, 10, 10, 10, 11, 11, 10}
	c, err := distance.Auto.KMeans(context.Background(), 2, 2, points, distance.KMeansOptions{Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Sizes, c.Assignment[0] == c.Assignment[2], c.Assignment[0] == c.Assignment[3])
	fmt.Printf("%.3f\n", c.Inertia)
	// Output:
	// [3 3] true false
	// 2.667
}
