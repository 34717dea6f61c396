package podsync

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestWithTag(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{name: "tag", in: "img.example/a:1", want: "img.example/a:1"},
		{name: "no tag", in: "img.example/a", want: "img.example/a:latest"},
		{name: "port", in: "img.example:5000/a", want: "img.example:5000/a:latest"},
		{name: "digest", in: "img.example/a@sha256:00", want: "img.example/a@sha256:00"},
		{name: "empty"},
		{name: "blank", in: "img.example/a b"},
		{name: "no tag after the colon", in: "img.example/a:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := withTag(tt.in)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("withTag(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestLinkName(t *testing.T) {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = "default", strings.Repeat("p", 253)
	id := strings.Repeat("0", 64)
	got := linkName(pod, "app", id)
	if len(got) != 255 || !strings.HasSuffix(got, "-"+id+".log") {
		t.Errorf("linkName = %q with %d bytes, want the id within 255", got, len(got))
	}
	pod.Name = "web"
	if got, want := linkName(pod, "app", "1"), "web_default_app-1.log"; got != want {
		t.Errorf("linkName = %q, want %q", got, want)
	}
}

func FuzzLogNumber(f *testing.F) {
	for _, s := range []string{"0.log", "12.log.20240101-000000.gz", "x.log", "99999999999.log", "-1.log", "1.logs", "0.log.\xe6"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := logNumber(name)
		if ok && (!strings.Contains(name, ".log") || n > 999999999) {
			t.Errorf("logNumber(%q) = %d", name, n)
		}
	})
}
