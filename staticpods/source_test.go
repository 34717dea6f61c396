package staticpods

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const settled = 2 * DefaultSettle

func TestSourceDeliversWholeSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("b.yaml", web("b", "1"))
			b.write("a.json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"GEN","value":"1"}]}]}}`)
		})
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1", "default/b-node-a GEN=1")
		b.write("c.yml", web("c", "1"))
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1", "default/b-node-a GEN=1", "default/c-node-a GEN=1")
		b.remove("a.json")
		b.after(settled)
		b.wantPods("default/b-node-a GEN=1", "default/c-node-a GEN=1")
		b.wantStates("b.yaml ok", "c.yml ok")
		if len(b.delivered()) != 3 {
			t.Errorf("%d sets were delivered, want one for each change: 3", len(b.delivered()))
		}
	})
}

func TestSourceFindsChangesWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Period: 5 * time.Second}, nil)
		b.after(settled)
		b.wantPods()
		if err := os.WriteFile(b.path("a.yaml"), []byte(web("a", "1")), 0o644); err != nil {
			t.Fatal(err)
		}
		b.after(5*time.Second + settled)
		b.wantPods("default/a-node-a GEN=1")
	})
}

func TestBackupOfAManifestDoesNotWin(t *testing.T) {
	for _, first := range []string{"10-web.yaml", "10-web.yaml.bak"} {
		t.Run(first+" written first", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{}, func(b *bench) {
					files := map[string]string{"10-web.yaml": "current", "10-web.yaml.bak": "old"}
					b.write(first, web("web", files[first]))
					delete(files, first)
					for name, gen := range files {
						b.write(name, web("web", gen))
					}
					b.write(".10-web.yaml.swp", "b0VIM garbage")
					b.write("notes.txt", "remember to rotate\n")
				})
				b.after(settled)
				b.wantPods("default/web-node-a GEN=current")
				b.wantStates("10-web.yaml ok", "10-web.yaml.bak ignored", "notes.txt ignored")
				backup, notes := b.source.Statuses()[1].Reason, b.source.Statuses()[2].Reason
				for _, part := range []string{"default/web-node-a", b.path("10-web.yaml"), "*.yaml"} {
					if !strings.Contains(backup, part) {
						t.Errorf("the reason of the backup %q lacks %q", backup, part)
					}
				}
				if !strings.Contains(notes, "no manifest either") {
					t.Errorf("the reason of the notes is %q", notes)
				}
			})
		})
	}
}

func TestBrokenFileKeepsWhatRan(t *testing.T) {
	good := web("keeper", "1")
	tests := []struct {
		name string
		text string
		line int
		want string
	}{
		{name: "empty", text: "", want: "holds no object; to stop a pod, remove its file"},
		{name: "half written", text: good[:strings.Index(good, "ple/shell")], line: 7, want: "as if half written"},
		{name: "of another kind", text: "apiVersion: v1\nkind: Service\nmetadata: {name: keeper}\n", line: 2, want: `kind: is "Service", must be Pod, ConfigMap or Secret`},
		{name: "a ConfigMap", text: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: keeper}\n", want: "holds no Pod any more; to stop a pod, remove its file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{}, func(b *bench) {
					b.write("keeper.yaml", good)
					b.write("neighbour.yaml", web("neighbour", "1"))
				})
				b.after(settled)
				before := b.delivered()[0].Pods[0].UID

				b.write("keeper.yaml", tt.text)
				b.after(time.Minute)
				b.wantStates("keeper.yaml invalid kept", "neighbour.yaml ok")
				if len(b.delivered()) != 1 {
					t.Fatalf("%d sets were delivered while the file was broken", len(b.delivered())-1)
				}
				s := b.source.Statuses()[0]
				if s.Line != tt.line || !strings.Contains(s.Reason, tt.want) || s.UID != before {
					t.Errorf("line %d, uid %s, reason %q; want line %d, uid %s, reason %q", s.Line, s.UID, s.Reason, tt.line, before, tt.want)
				}

				b.write("keeper.yaml", web("keeper", "2"))
				b.after(settled)
				b.wantPods("default/keeper-node-a GEN=2", "default/neighbour-node-a GEN=1")
				b.remove("keeper.yaml")
				b.after(settled)
				b.wantPods("default/neighbour-node-a GEN=1")
				if len(b.delivered()) != 3 {
					t.Errorf("%d sets were delivered, want 3", len(b.delivered()))
				}
			})
		})
	}
}

func TestBrokenFileAtTheStartIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("bad.yaml", "kind: Pod\n")
			b.write("neighbour.yaml", web("neighbour", "1"))
		})
		b.after(settled)
		b.wantPods("default/neighbour-node-a GEN=1")
		b.wantStates("bad.yaml invalid", "neighbour.yaml ok")
	})
}

func TestFirstFileOwnsAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("b.yaml", web("web", "b"))
			b.write("c.yaml", web("web", "c"))
		})
		b.after(settled)
		b.wantPods("default/web-node-a GEN=b")
		b.wantStates("b.yaml ok", "c.yaml duplicate")
		if got := b.source.Statuses()[1].Reason; !strings.Contains(got, b.path("b.yaml")) {
			t.Errorf("the reason %q does not name the first file", got)
		}
		b.remove("b.yaml")
		b.after(settled)
		b.wantPods("default/web-node-a GEN=c")
	})
}

func TestTwoPodsCannotHaveOneUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			for _, name := range []string{"a", "b"} {
				b.write(name+".yaml", strings.Replace(web(name, "1"), "metadata: {", "metadata: {uid: u-1, ", 1))
			}
		})
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1")
		b.wantStates("a.yaml ok", "b.yaml duplicate")
	})
}

func TestFileInTheMakingIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		b.after(settled)
		text := web("web", "2")
		for _, more := range []string{"", "    command: [sh]\n", "    args: [x]\n", "    tty: true\n"} { // each a valid pod
			text += more
			b.write("web.yaml", text)
			b.after(DefaultSettle / 2)
		}
		b.after(settled)
		if len(b.delivered()) != 2 {
			t.Errorf("%d sets were delivered, want the old pod and the finished new one", len(b.delivered()))
		}
		b.wantPods("default/web-node-a GEN=2")
	})
}

func TestFileMovedInIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, nil)
		b.after(settled)
		b.write(".web.yaml", web("web", "1"))
		old := time.Now().Add(-time.Hour)
		if err := errors.Join(os.Chtimes(b.path(".web.yaml"), old, old), os.Rename(b.path(".web.yaml"), b.path("web.yaml"))); err != nil {
			t.Fatal(err)
		}
		b.event()
		b.after(DefaultSettle / 2)
		b.wantPods("default/web-node-a GEN=1")
	})
}

func TestFileThatNeverRestsIsReadInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		for i := range 3 * patience {
			b.write("web.yaml", web("web", "1")+strings.Repeat("#", i))
			b.after(DefaultSettle / 2)
		}
		if len(b.delivered()) == 0 {
			t.Error("no set after", patience*DefaultSettle)
		}
	})
}

func TestFileReplacedWithAGapStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		b.after(settled)
		b.remove("web.yaml")
		b.after(DefaultSettle / 2)
		b.write("web.yaml", web("web", "1"))
		b.after(time.Minute)
		if len(b.delivered()) != 1 {
			t.Errorf("%d sets were delivered, want 1: the pod never left", len(b.delivered()))
		}
	})
}

func TestRenamedFileKeepsItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		b.after(settled)
		if err := os.Rename(b.path("web.yaml"), b.path("20-web.yaml")); err != nil {
			t.Fatal(err)
		}
		b.event()
		b.after(settled)
		for _, set := range b.delivered() {
			if diff := cmp.Diff(b.delivered()[0].Pods, set.Pods); diff != "" {
				t.Errorf("pods (-before +after):\n%s", diff)
			}
		}
		b.wantStates("20-web.yaml ok")
	})
}

func TestMissingDirectoryIsAnEmptySet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		b.after(settled)
		b.remove("")
		b.after(settled)
		b.wantPods()
		b.wantStates("manifests missing")
		if err := os.Mkdir(b.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		b.write("web.yaml", web("web", "1"))
		b.after(settled)
		b.wantPods("default/web-node-a GEN=1")
		b.wantStates("web.yaml ok")
	})
}

func TestUnreadableDirectoryIsNoSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A link that leads nowhere is unreadable for root too.
		b := newBench(t, Config{Period: time.Second}, func(b *bench) {
			b.write("web.yaml", web("web", "1"))
			if err := errors.Join(os.Rename(b.dir, b.dir+".real"), os.Symlink(b.dir+".real", b.dir)); err != nil {
				t.Fatal(err)
			}
		})
		b.after(settled)
		b.wantPods("default/web-node-a GEN=1")
		if err := os.Rename(b.dir+".real", b.dir+".away"); err != nil {
			t.Fatal(err)
		}
		b.after(time.Minute)
		b.wantStates("manifests unreadable", "web.yaml ok")
		if err := os.Rename(b.dir+".away", b.dir+".real"); err != nil {
			t.Fatal(err)
		}
		b.after(2 * time.Second)
		b.wantStates("web.yaml ok")
		if len(b.delivered()) != 1 {
			t.Errorf("%d sets were delivered, want 1", len(b.delivered()))
		}
	})
}

func TestNoSetBeforeTheDirectoryCanBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{Period: time.Second}, func(b *bench) {
			if err := errors.Join(os.Remove(b.dir), os.Symlink(b.dir+".real", b.dir)); err != nil {
				t.Fatal(err)
			}
		})
		b.after(time.Minute)
		if b.delivered() != nil {
			t.Fatalf("a set of %d pods was delivered", len(b.delivered()[0].Pods))
		}
		if err := os.Mkdir(b.dir+".real", 0o755); err != nil {
			t.Fatal(err)
		}
		b.after(2 * time.Second)
		if len(b.delivered()) != 1 {
			t.Errorf("%d sets were delivered, want an empty one", len(b.delivered()))
		}
	})
}

func TestMountedConfigMapIsSwappedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		swap := func(b *bench, version string) {
			t.Helper()
			dir := b.path(".." + version)
			if err := errors.Join(
				os.Mkdir(dir, 0o755),
				os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web("web", version)), 0o644),
				os.Symlink(".."+version, b.path("..tmp")),
				os.Rename(b.path("..tmp"), b.path("..data")),
			); err != nil {
				t.Fatal(err)
			}
			b.event()
		}
		b := newBench(t, Config{}, func(b *bench) {
			swap(b, "1")
			if err := os.Symlink("..data/web.yaml", b.path("web.yaml")); err != nil {
				t.Fatal(err)
			}
		})
		b.after(settled)
		b.wantPods("default/web-node-a GEN=1")
		swap(b, "2")
		b.after(settled)
		b.wantPods("default/web-node-a GEN=2")
		b.wantStates("web.yaml ok")
	})
}

func TestSingleFileMayHaveAnyName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			if err := errors.Join(os.Remove(b.dir), os.WriteFile(b.dir, []byte(web("web", "1")), 0o644)); err != nil {
				t.Fatal(err)
			}
		})
		b.after(settled)
		b.wantPods("default/web-node-a GEN=1")
		b.wantStates("manifests ok")
		b.remove("")
		b.after(settled)
		b.wantPods()
		b.wantStates("manifests missing")
	})
}

func TestRunningPodLendsItsUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		running := true
		b := newBench(t, Config{AdoptUID: func(p *corev1.Pod) (types.UID, bool) {
			asked = append(asked, fullName(p)+" "+p.Spec.Containers[0].Env[0].Value)
			return "of-another-kubelet", running && p.Spec.Containers[0].Env[0].Value == "1"
		}}, func(b *bench) {
			b.write("web.yaml", web("web", "1"))
			b.write("own.yaml", strings.Replace(web("own", "1"), "metadata: {", "metadata: {uid: u-1, ", 1))
		})
		b.after(settled)
		pod := b.delivered()[0].Pods[1]
		if pod.UID != "of-another-kubelet" || pod.Annotations[AnnotationHash] != "of-another-kubelet" {
			t.Errorf("uid %s, hash %s: want those of the running pod", pod.UID, pod.Annotations[AnnotationHash])
		}

		running = false // the pod has ended; its manifest is the same
		b.write("web.yaml", "# touched\n"+web("web", "1"))
		b.after(settled)
		if len(b.delivered()) != 1 {
			t.Errorf("a comment made %d new sets", len(b.delivered())-1)
		}
		b.write("web.yaml", web("web", "2"))
		b.after(settled)
		if got := b.delivered()[1].Pods[1].UID; got == "of-another-kubelet" {
			t.Error("another manifest took the UID of the running pod")
		}
		b.remove("web.yaml")
		b.after(settled)
		b.write("web.yaml", web("web", "2")) // a pod that left all files is forgotten
		b.after(settled)
		want := []string{"default/web-node-a 1", "default/web-node-a 2", "default/web-node-a 2"}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("asked for (-want +got):\n%s", diff)
		}
	})
}

func TestNamesThatAreNoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			if err := errors.Join(
				os.Mkdir(b.path("sub.yaml"), 0o755),
				os.Symlink("nowhere", b.path("link.yaml")),
				mkfifo(b.path("pipe.yaml")),
				os.WriteFile(b.path("sub.yaml/inner.yaml"), []byte(web("inner", "1")), 0o644),
			); err != nil {
				t.Fatal(err)
			}
		})
		b.after(settled)
		b.wantPods()
		b.wantStates("link.yaml invalid", "pipe.yaml ignored", "sub.yaml ignored")
	})
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o644) }

func TestManifestMayEndInsideALine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", strings.TrimSpace(web("web", "1"))) })
		b.after(settled)
		b.wantPods("default/web-node-a GEN=1")
		b.write("web.yaml", strings.TrimSpace(web("web", "2")))
		b.after(settled)
		b.wantPods("default/web-node-a GEN=2")
	})
}

func TestNameThatStopsBeingAFileKeepsWhatRan(t *testing.T) {
	for name, replace := range map[string]func(path string) error{
		"dangling link": func(path string) error { return os.Symlink("nowhere", path) },
		"directory":     func(path string) error { return os.Mkdir(path, 0o755) },
		"pipe":          func(path string) error { return syscall.Mkfifo(path, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
				b.after(settled)
				b.remove("web.yaml")
				if err := replace(b.path("web.yaml")); err != nil {
					t.Fatal(err)
				}
				b.after(time.Minute)
				b.wantStates("web.yaml invalid kept")
				b.wantPods("default/web-node-a GEN=1")
			})
		})
	}
}

func TestExplicitUIDIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		withUID := func(uid string) string {
			return strings.Replace(web("web", "1"), "metadata: {", "metadata: {uid: "+uid+", ", 1)
		}
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", withUID("u-1")) })
		b.after(settled)
		b.write("web.yaml", withUID("u-2"))
		b.after(settled)
		b.write("web.yaml", web("web", "1")) // the same pod, without saying so
		b.after(settled)
		var got []types.UID
		for _, s := range b.delivered() {
			got = append(got, s.Pods[0].UID)
		}
		if diff := cmp.Diff([]types.UID{"u-1", "u-2", "u-2"}, got); diff != "" {
			t.Errorf("UIDs (-want +got):\n%s", diff)
		}
	})
}

func TestPodsCarryTheTimeTheyWereSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("web.yaml", web("web", "1")) })
		b.after(settled)
		got := b.delivered()[0].Pods[0].Annotations[AnnotationSeen]
		seen, err := time.Parse(time.RFC3339Nano, got)
		if err != nil || time.Since(seen) > settled {
			t.Errorf("seen %q, error %v", got, err)
		}
	})
}

// logLines collects what a source logs, like "ERROR manifest invalid".
type logLines struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func (l *logLines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "path" {
			line += " " + filepath.Base(a.Value.String())
		}
		return true
	})
	l.lines = append(l.lines, line)
	return nil
}

func (l *logLines) Enabled(context.Context, slog.Level) bool { return true }

func TestEachStatusIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logLines{Handler: slog.DiscardHandler}
		b := newBench(t, Config{Period: time.Second, Log: slog.New(log)}, func(b *bench) {
			b.write("a.yaml", web("a", "1"))
			b.write("b.yaml", "kind: Pod\n")
			b.write("c.txt", "notes")
		})
		b.after(time.Minute)
		b.write("a.yaml", web("a", "1")+"    imge: x\n")
		b.after(time.Minute)
		b.remove("b.yaml")
		b.after(time.Minute)
		b.remove("")
		b.after(time.Minute)
		want := []string{
			"INFO manifest read a.yaml", "ERROR manifest invalid b.yaml", "WARN manifest not used c.txt",
			"INFO manifest read a.yaml", "WARN manifest warning a.yaml",
			"INFO manifest gone b.yaml",
			"WARN manifest not used manifests", "INFO manifest gone a.yaml", "INFO manifest gone c.txt",
		}
		var got []string
		for _, line := range log.lines {
			if !strings.Contains(line, "pending") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestSourceNamesWhatIsWrongWithItsConfig(t *testing.T) {
	for want, cfg := range map[string]Config{
		"Config.NodeName is empty": {},
		"Config.NodeName \"a b\"":  {NodeName: "a b"},
		"Config.Period is -1s":     {NodeName: "a", Period: -time.Second},
		"Config.Settle is -1s":     {NodeName: "a", Settle: -time.Second},
	} {
		if _, err := Dir("/x", cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := Dir("", Config{NodeName: "a"}); err == nil {
		t.Error("an empty path is no error")
	}
}

func TestSourceWorksWithoutEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web("web", "1")), 0o644); err != nil {
			t.Fatal(err)
		}
		source, err := newSource(dir, Config{NodeName: "node-a"}, func(string) (watcher, error) {
			return nil, errors.New("too many open files")
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		pods := 0
		if err := source.Run(ctx, func(s Set) { pods = len(s.Pods); cancel() }); err != nil || pods != 1 {
			t.Errorf("%d pods, error %v", pods, err)
		}
	})
}

func TestNothingIsLostBeforeTheWatchBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		watch := &fakeWatcher{follow: func() bool {
			return os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(web("web", "1")), 0o644) == nil
		}}
		source, err := newSource(dir, Config{NodeName: "node-a", Period: noLook}, func(string) (watcher, error) { return watch, nil })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := source.Run(ctx, func(s Set) {
			if len(s.Pods) != 1 {
				t.Errorf("the first set has %d pods, want the one that came during the first look", len(s.Pods))
			}
			cancel()
		}); err != nil {
			t.Error(err)
		}
	})
}
