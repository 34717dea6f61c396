package pinning

import (
	"iter"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/nodekit-go/nodekit/allocatable"
)

// CPUSet is a set of logical CPUs. The zero value is empty. Sets are values: no method
// changes one.
type CPUSet struct {
	// words has bit i%64 of word i/64 set for CPU i. The last word is not 0.
	words []uint64
}

// NewCPUSet returns the set of some CPUs. Negative numbers are left out.
func NewCPUSet(cpus ...int) CPUSet {
	var s CPUSet
	for _, cpu := range cpus {
		if cpu < 0 {
			continue
		}
		if need := cpu/64 + 1; need > len(s.words) {
			s.words = append(s.words, make([]uint64, need-len(s.words))...)
		}
		s.words[cpu/64] |= 1 << (cpu % 64)
	}
	return s
}

// ParseCPUSet reads a list like "0-3,8".
func ParseCPUSet(list string) (CPUSet, error) {
	cpus, err := allocatable.ParseCPUs(list)
	if err != nil {
		return CPUSet{}, err
	}
	return NewCPUSet(cpus...), nil
}

// Len returns how many CPUs there are.
func (s CPUSet) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether there are none.
func (s CPUSet) IsEmpty() bool { return len(s.words) == 0 }

// Has reports whether a CPU is one of them.
func (s CPUSet) Has(cpu int) bool {
	return cpu >= 0 && cpu/64 < len(s.words) && s.words[cpu/64]&(1<<(cpu%64)) != 0
}

// Equal reports whether both sets have the same CPUs.
func (s CPUSet) Equal(t CPUSet) bool { return slices.Equal(s.words, t.words) }

// Union returns the CPUs of both.
func (s CPUSet) Union(t CPUSet) CPUSet {
	if len(s.words) < len(t.words) {
		s, t = t, s
	}
	words := slices.Clone(s.words)
	for i, w := range t.words {
		words[i] |= w
	}
	return CPUSet{words}
}

// Intersect returns the CPUs that are in both.
func (s CPUSet) Intersect(t CPUSet) CPUSet {
	n := min(len(s.words), len(t.words))
	words := make([]uint64, n)
	for i := range n {
		words[i] = s.words[i] & t.words[i]
	}
	return trimmed(words)
}

// Without returns the CPUs that are not in t.
func (s CPUSet) Without(t CPUSet) CPUSet {
	words := slices.Clone(s.words)
	for i := range min(len(words), len(t.words)) {
		words[i] &^= t.words[i]
	}
	return trimmed(words)
}

// common returns how many CPUs are in both.
func (s CPUSet) common(t CPUSet) int {
	n := 0
	for i := range min(len(s.words), len(t.words)) {
		n += bits.OnesCount64(s.words[i] & t.words[i])
	}
	return n
}

func trimmed(words []uint64) CPUSet {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return CPUSet{words}
}

// All yields the CPUs in order.
func (s CPUSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(64*i + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// List returns the CPUs in order.
func (s CPUSet) List() []int { return slices.Collect(s.All()) }

// first returns the n CPUs with the lowest numbers.
func (s CPUSet) first(n int) CPUSet {
	list := s.List()
	return NewCPUSet(list[:min(n, len(list))]...)
}

// String returns a list like "0-3,8", as the kernel reads it
// (https://man7.org/linux/man-pages/man7/cpuset.7.html, "List format").
func (s CPUSet) String() string {
	var parts []string
	first, last := -1, -2
	flush := func() {
		switch {
		case first < 0:
		case first == last:
			parts = append(parts, strconv.Itoa(first))
		default:
			parts = append(parts, strconv.Itoa(first)+"-"+strconv.Itoa(last))
		}
	}
	for cpu := range s.All() {
		if cpu != last+1 {
			flush()
			first = cpu
		}
		last = cpu
	}
	flush()
	return strings.Join(parts, ",")
}
