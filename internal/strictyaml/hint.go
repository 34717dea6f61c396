package strictyaml

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// hint names the known field that an unknown one was probably meant to be.
func hint(name string, known map[string]reflect.Type) string {
	best, distance := "", 3 // up to two slips of the keyboard
	for _, k := range slices.Sorted(maps.Keys(known)) {
		d := edits(strings.ToLower(name), strings.ToLower(k))
		if d < distance && d < len(k)/2 {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// edits returns the number of insertions, deletions, replacements and swaps of
// neighbours that turn a into b (optimal string alignment).
func edits(a, b string) int {
	if len(a)-len(b) > 2 || len(b)-len(a) > 2 {
		return 3 // as far as anyone asks
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost(a[i-1] != b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func cost(differs bool) int {
	if differs {
		return 1
	}
	return 0
}
