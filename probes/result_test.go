package probes

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestClip(t *testing.T) {
	tests := []struct {
		name  string
		in    string
		limit int
		want  string
	}{
		{"short", "ok", 10, "ok"},
		{"long", "0123456789", 4, "0123"},
		{"between characters", "ab\u00e9", 3, "ab"},
		{"on a boundary", "a\u00e9b", 3, "a\u00e9"},
		{"invalid bytes", "a\xffb", 10, "a\ufffdb"},
		{"invalid bytes that grow past the limit", "a\xffb\xffc\xff", 6, "a\ufffdb"},
		{"nothing", "", 10, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := clip(tt.in, tt.limit)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValuesSurviveJSON(t *testing.T) {
	want := Values{Startup: Success, Liveness: Failure, Readiness: Unknown}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"Startup":"success","Liveness":"failure","Readiness":"unknown"}`, string(text)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var got Values
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	var o Outcome
	if err := o.UnmarshalText([]byte("fine")); err == nil || !strings.Contains(err.Error(), `"fine"`) {
		t.Errorf("error is %v", err)
	}
}

func FuzzClip(f *testing.F) {
	f.Add([]byte("plain"), 3)
	f.Add([]byte("\xff\xfe\u00e9"), 4)
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		if limit < 0 || limit > 1<<20 {
			return
		}
		got := clip(in, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("clip(%q, %d) = %q", in, limit, got)
		}
		if utf8.Valid(in) && len(in) <= limit && got != string(in) {
			t.Errorf("clip(%q, %d) = %q changes what fits", in, limit, got)
		}
	})
}
