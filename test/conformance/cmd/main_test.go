package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPageIsThatOfTheRecordedResults(t *testing.T) {
	var want bytes.Buffer
	if err := page(&want, ".."); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/conformance.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/conformance.md is not current, run make conformance-page (-want +got):\n%s", diff)
	}
}
