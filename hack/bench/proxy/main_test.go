package main

import (
	"strings"
	"testing"
	"time"
)

func TestParseSizes(t *testing.T) {
	got, err := parseSizes("1000x10,5x2")
	if err != nil || len(got) != 2 || got[1] != (size{5, 2}) {
		t.Errorf("parseSizes() = %v, %v", got, err)
	}
	for _, bad := range []string{"", "10", "0x1", "ax2"} {
		if _, err := parseSizes(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestPrintTable(t *testing.T) {
	var b strings.Builder
	ours := result{name: "ours", start: time.Second, peak: 2048}
	theirs := result{name: "theirs", start: 3 * time.Second, peak: 4096}
	printTable(&b, size{1, 2}, []result{ours, theirs})
	for _, want := range []string{"| 1 x 2 | ours | theirs | ratio |", "| start until all answer | 1 s | 3 s | 3 |", "| peak memory | 2 MiB | 4 MiB | 2 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
}

func TestQuantile(t *testing.T) {
	d := []time.Duration{4, 1, 3, 2}
	if quantile(d, 0.5) != 3 || quantile(d, 0.99) != 4 || quantile(nil, 0.5) != 0 {
		t.Error("quantiles are wrong")
	}
}
