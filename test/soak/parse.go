package soak

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// countRuleset counts what "nft -j list ruleset" prints (libnftables-json(5)).
func countRuleset(data []byte) (Counts, error) {
	var ruleset struct {
		Nftables []map[string]json.RawMessage `json:"nftables"`
	}
	if err := json.Unmarshal(data, &ruleset); err != nil {
		return nil, fmt.Errorf("decode the list of nft: %w", err)
	}
	c := Counts{Chains: 0, Rules: 0, Elements: 0}
	for _, object := range ruleset.Nftables {
		for kind, raw := range object {
			switch kind {
			case "chain":
				c[Chains]++
			case "rule":
				c[Rules]++
			case "set", "map":
				var set struct {
					Elem []json.RawMessage `json:"elem"`
				}
				if err := json.Unmarshal(raw, &set); err != nil {
					return nil, fmt.Errorf("decode a %s of nft: %w", kind, err)
				}
				c[Elements] += int64(len(set.Elem))
			}
		}
	}
	return c, nil
}

// countSaved counts what iptables-save(8) prints.
func countSaved(data []byte) Counts {
	c := Counts{Chains: 0, Rules: 0}
	for line := range bytes.Lines(data) {
		switch {
		case bytes.HasPrefix(line, []byte(":")):
			c[Chains]++
		case bytes.HasPrefix(line, []byte("-A ")):
			c[Rules]++
		}
	}
	return c
}

// goroutinesIn reads how many goroutines a profile with debug=1 tells of (package
// runtime/pprof).
func goroutinesIn(profile []byte) (int64, error) {
	first, _, _ := bytes.Cut(profile, []byte("\n"))
	number, ok := strings.CutPrefix(string(first), "goroutine profile: total ")
	if !ok {
		return 0, fmt.Errorf("read the profile of goroutines: it begins with %.60q", first)
	}
	return parseCount("goroutines", number)
}

// heapIn reads how many bytes of the heap are in use by a profile with debug=1.
func heapIn(profile []byte) (int64, error) {
	number, ok := lineAfter(profile, "# HeapAlloc = ")
	if !ok {
		return 0, fmt.Errorf("read the profile of the heap: it has no line HeapAlloc")
	}
	return parseCount("bytes of the heap", number)
}

// anonymousIn reads the anonymous resident memory, in bytes, of /proc/<pid>/status
// (proc_pid_status(5)).
func anonymousIn(status []byte) (int64, error) {
	text, ok := lineAfter(status, "RssAnon:")
	number, unit := strings.CutSuffix(strings.TrimSpace(text), " kB")
	if !ok || !unit {
		return 0, fmt.Errorf("read the status of a process: RssAnon is %q", text)
	}
	kilobytes, err := parseCount("kilobytes", strings.TrimSpace(number))
	return kilobytes << 10, err
}

// lineAfter returns the rest of the first line that begins with prefix.
func lineAfter(text []byte, prefix string) (string, bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
			return rest, true
		}
	}
	return "", false
}

func parseCount(what, number string) (int64, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("read the number of %s: %q is none", what, number)
	}
	return n, nil
}
