package atomicwriter

import (
	"strconv"
	"testing"
)

// BenchmarkWrite has the cost of a set that changes and of one that does not.
func BenchmarkWrite(b *testing.B) {
	files := func(i int) map[string]File {
		return set(map[string]string{"app.ini": strconv.Itoa(i), "log/level": "info", "certs/ca.pem": "x"})
	}
	b.Run("changed", func(b *testing.B) {
		w := Writer{Dir: b.TempDir()}
		for i := 0; b.Loop(); i++ {
			if _, err := w.Write(files(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("same", func(b *testing.B) {
		w := Writer{Dir: b.TempDir()}
		for b.Loop() {
			if _, err := w.Write(files(0)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
