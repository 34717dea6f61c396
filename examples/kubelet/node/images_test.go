package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
)

// imageList is a runtime that has images and fails the first time.
type imageList struct {
	images []*runtimeapi.Image
	asked  int
}

func (l *imageList) ListImages(context.Context, *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	if l.asked++; l.asked == 1 {
		return nil, errors.New("the runtime is down")
	}
	return l.images, nil
}

// The image of a pull that was cut off is bound to it while the agent runs, not only at the
// next start.
func TestPullsThatWereCutOffAreSettled(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const name = "reg.example/web:1"
		records, err := pullrecord.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(records.Begin(name), records.CutOff(name)); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		list := &imageList{images: []*runtimeapi.Image{{Id: "sha256:1", RepoTags: []string{name}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 2*settleEvery+time.Minute)
		defer cancel()
		p := &pictures{records: records}
		if err := p.settle(ctx, list, slog.New(slog.NewTextHandler(&log, nil))); err != nil {
			t.Error(err)
		}
		pulling, err := os.ReadDir(filepath.Join(dir, "pulling"))
		if err != nil || len(pulling) != 0 || list.asked != 2 {
			t.Errorf("%d pulls are on record as begun after %d looks, %v, want none after two", len(pulling), list.asked, err)
		}
		if ok, err := records.Allows(name, "sha256:1", pullrecord.Verifier{}, func() (pullrecord.Access, error) { return pullrecord.Access{}, nil }); ok || err != nil {
			t.Errorf("a pod without credentials may use the image: %v, %v", ok, err)
		}
		if got := log.String(); strings.Count(got, "the runtime is down") != 1 {
			t.Errorf("log is %q, want the failure once", got)
		}
	})
}
