package replay_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/story"
)

// tale is a story that is being lived.
type tale struct {
	*story.Story
	name   string
	rec    *story.Recorder
	config runtimetest.Config
	// found has the probes, by container and kind, that have found something.
	found sync.Map
}

// slack is what a stock kubelet is forgiven on a machine that does other things, too: it
// learns of what happens by its look at the runtime each second, and looks again before it
// acts. Which of two events was first is hard to see from outside.
func slack() story.Slack { return story.Slack{Order: 200 * time.Millisecond, Time: 6 * time.Second} }

// stories returns all stories of podsync.
func stories(t *testing.T) (tales []*tale) {
	t.Helper()
	const dir = "../../podworker/podsync/testdata"
	files, err := filepath.Glob(filepath.Join(dir, "*/*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, dir+"/"), ".txtar")
		tales = append(tales, &tale{Story: s, name: name})
	}
	return tales
}

// TestStockKubeletLivesTheStories has one stock kubelet live all stories.
func TestStockKubeletLivesTheStories(t *testing.T) {
	if os.Getenv("NODEKIT_LONG") != "1" {
		t.Skip("NODEKIT_LONG=1 is not set: without it the stock kubelet is not built")
	}
	tales := stories(t)
	startStage(t, tales).live(t)
	known := differences(t)
	for _, tl := range tales {
		broken := story.Check(tl.Expect, tl.rec.Events(), slack())
		reason, listed := known[tl.name]
		switch {
		case len(broken) > 0 && !listed:
			t.Errorf("%s: %s\nwhat happened:\n%s", tl.name, strings.Join(broken, "\n"), tl.rec)
		case len(broken) > 0:
			t.Logf("%s: differs: %s (%s)", tl.name, strings.Join(broken, "; "), reason)
		case listed:
			t.Logf("%s: holds this time, although: %s", tl.name, reason)
		}
		delete(known, tl.name)
	}
	for name := range known {
		t.Errorf("differences.txt names %s, which was not replayed", name)
	}
	t.Logf("%d stories were replayed", len(tales))
}

// differences reads why a story does not hold on a stock kubelet: "name: reason" a line.
func differences(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && !strings.HasPrefix(name, "#") {
			known[name] = reason
		}
	}
	return known
}

// statusText says what a status shows, in the words of the stories.
func statusText(st *corev1.PodStatus) string {
	text := "is " + string(st.Phase)
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			text += " and ready"
		}
	}
	if st.Reason != "" {
		text += " for " + st.Reason
	}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
				text += fmt.Sprintf(", %s in %s", list[i].Name, w.Reason)
			}
		}
	}
	return text
}
