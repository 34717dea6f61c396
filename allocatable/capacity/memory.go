package capacity

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// readMemory returns MemTotal and SwapTotal in bytes
// (https://docs.kernel.org/filesystems/proc.html, meminfo).
func readMemory(t tree) (memory, swap int64, err error) {
	const meminfo = "/proc/meminfo"
	text, err := t.text(meminfo)
	if err != nil {
		return 0, 0, err
	}
	if memory, err = kilobytes(text, "MemTotal"); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", t.path(meminfo), err)
	}
	if memory == 0 {
		return 0, 0, fmt.Errorf("%s has no MemTotal", t.path(meminfo))
	}
	if swap, err = kilobytes(text, "SwapTotal"); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", t.path(meminfo), err)
	}
	return memory, swap, nil
}

// kilobytes finds a line like "MemTotal:  8141816 kB" and returns it in bytes; 0
// without it. Nodes of NUMA begin their lines with "Node 0".
func kilobytes(text, name string) (int64, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 3 && fields[0] == "Node" {
			fields = fields[2:]
		}
		if len(fields) < 2 || fields[0] != name+":" {
			continue
		}
		n, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>10 || len(fields) != 3 || fields[2] != "kB" {
			return 0, fmt.Errorf("%q must be a number of kB", strings.TrimSpace(line))
		}
		return n << 10, nil
	}
	return 0, nil
}

// readHugePages reads directories like hugepages-2048kB
// (https://docs.kernel.org/admin-guide/mm/hugetlbpage.html).
func readHugePages(t tree, dir string) ([]HugePages, error) {
	names, err := t.names(dir)
	if err != nil {
		return nil, err
	}
	var pages []HugePages
	for _, name := range names {
		number, ok := strings.CutPrefix(name, "hugepages-")
		number, ok2 := strings.CutSuffix(number, "kB")
		if !ok || !ok2 {
			continue
		}
		size, err := strconv.ParseInt(number, 10, 32)
		if err != nil || size <= 0 {
			return nil, fmt.Errorf("%s: %q must state a size in kB", t.path(dir), name)
		}
		count, err := t.number(path.Join(dir, name, "nr_hugepages"))
		if err != nil {
			return nil, err
		}
		if count > math.MaxInt64/(size<<10) {
			return nil, fmt.Errorf("%s: no machine has %d pages of %d kB", t.path(dir), count, size)
		}
		pages = append(pages, HugePages{Size: size << 10, Count: count})
	}
	slices.SortFunc(pages, func(a, b HugePages) int { return cmp.Compare(a.Size, b.Size) })
	return pages, nil
}
