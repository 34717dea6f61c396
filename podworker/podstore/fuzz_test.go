package podstore_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// FuzzFile: no file brings the process down, and one that is accepted is exactly what a
// Store writes.
func FuzzFile(f *testing.F) {
	pod := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"y","uid":"z"},"spec":{"containers":[{"name":"a"}]}}`
	for _, payload := range []string{"", "{}", pod, "2026-01-02T03:04:05Z", `{"namespace":"a","name":"b","sealed":"AAAA"}`} {
		f.Add("pod-z", podstore.EncodeFile([]byte(payload)))
	}
	f.Add("contact", []byte("nodekit-pod-store/1 0 e3b0\n"))
	f.Add("secret-1", []byte(strings.Repeat("\x00", 100)))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		payload, err := podstore.DecodeFile(data)
		if err == nil && !bytes.Equal(podstore.EncodeFile(payload), data) {
			t.Errorf("%q is accepted, but a Store writes %q", data, podstore.EncodeFile(payload))
		}
		_ = podstore.Accept(name, data) // must not panic
	})
}

// FuzzPayload: nor does a payload, however it came to its checksum.
func FuzzPayload(f *testing.F) {
	f.Add("pod-z", []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"y","uid":"z"},"spec":{"containers":[{"name":"a"}]}}`))
	f.Add("contact", []byte("2026-01-02T03:04:05Z"))
	f.Add("configmap-0", []byte(`{"namespace":"a","name":"b","configMap":{"data":{"k":"v"}}}`))
	f.Add("secret-0", []byte(`{"namespace":"a","name":"b","sealed":"AAAA"}`))
	f.Fuzz(func(_ *testing.T, name string, payload []byte) {
		_ = podstore.Accept(name, podstore.EncodeFile(payload))
	})
}
