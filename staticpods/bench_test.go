package staticpods

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const benchManifest = `apiVersion: v1
kind: Pod
metadata:
  name: web%d
  labels: {app: web}
spec:
  containers:
  - name: app
    image: registry.example/web:1
    command: [/bin/web, --port=8080]
    env:
    - {name: LEVEL, value: debug}
    ports:
    - {containerPort: 8080}
    resources:
      limits: {cpu: 500m, memory: 64Mi}
    volumeMounts:
    - {name: data, mountPath: /data}
  volumes:
  - name: data
    hostPath: {path: /srv/web, type: Directory}
`

// BenchmarkDecode is what an edit of one manifest costs.
func BenchmarkDecode(b *testing.B) {
	data := fmt.Appendf(nil, benchManifest, 0)
	for b.Loop() {
		if _, err := Decode(data, "node-a"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLook is what the periodic look at a hundred files costs when none has
// changed.
func BenchmarkLook(b *testing.B) {
	dir := b.TempDir()
	for i := range 100 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("web%d.yaml", i)), fmt.Appendf(nil, benchManifest, i), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	source, err := Dir(dir, Config{NodeName: "node-a"})
	if err != nil {
		b.Fatal(err)
	}
	sets := 0
	r := &run{Source: source, ledger: newLedger(source.cfg.Settle, nil), set: func(Set) { sets++ }}
	later := time.Now().Add(time.Hour) // the files have settled
	r.look(later)
	for b.Loop() {
		r.look(later)
	}
	if sets != 1 {
		b.Errorf("%d sets, want the first only", sets)
	}
}
