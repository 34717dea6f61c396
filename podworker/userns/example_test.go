package userns_test

import (
	"fmt"
	"os"

	"github.com/nodekit-go/nodekit/podworker/userns"
)

func Example() {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	first, length, err := userns.ParseSubIDs([]byte("0: kubelet 65536 7208960\n"))
	if err != nil {
		fmt.Println(err)
		return
	}
	ids, err := userns.New(userns.Config{Pods: dir, First: first, Length: length})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := ids.Get("6b1f0c1e-0c5f-4d8e-8f3b-2f6f6f0d2c11")
	fmt.Println(r.First, r.Length, err)
	// Output:
	// 65536 65536 <nil>
}
