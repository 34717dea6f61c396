package apiclient_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/nodekit-go/nodekit/examples/apiclient"
)

func TestLogHasOneFormat(t *testing.T) {
	var out bytes.Buffer
	apiclient.LogTo(slog.New(slog.NewJSONHandler(&out, nil)))
	t.Cleanup(klog.ClearLogger)
	klog.Warningf("watch of %s ended", "pods")
	klog.FromContext(context.Background()).Info("caches populated", "type", "v1.Pod")
	utilruntime.HandleErrorWithContext(t.Context(), errors.New("refused"), "failed to watch")
	for _, want := range []string{
		`"msg":"watch of pods ended"`,
		`"msg":"caches populated","type":"v1.Pod"`,
		`"level":"ERROR",`, `"err":"refused"`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "{") {
			t.Errorf("the line %q is no JSON", line)
		}
	}
}
