package atomicwriter

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

var errDead = errors.New("the process is dead")

// cutting is a file system on which the process dies in the n-th step: it does half of
// it, or nothing, and nothing after it.
type cutting struct {
	filesystem
	steps int // until the death
	half  bool
	lives bool // only that step fails
}

// alive reports whether a step is done as a whole, and whether half of it is.
func (c *cutting) alive() (whole, half bool) {
	c.steps--
	return c.steps > 0 || c.lives && c.steps < 0, c.steps == 0 && c.half
}

func (c *cutting) mkdir(name string) error {
	if whole, half := c.alive(); !whole && !half {
		return errDead
	} else if half {
		return errors.Join(c.filesystem.mkdir(name), errDead)
	}
	return c.filesystem.mkdir(name)
}

func (c *cutting) create(name string, f *File, durable bool) error {
	whole, half := c.alive()
	if half {
		torn := *f
		torn.Data = torn.Data[:len(torn.Data)/2]
		return errors.Join(c.filesystem.create(name, &torn, durable), errDead)
	}
	if !whole {
		return errDead
	}
	return c.filesystem.create(name, f, durable)
}

func (c *cutting) symlink(target, name string) error {
	return c.atOnce(func() error { return c.filesystem.symlink(target, name) })
}

func (c *cutting) rename(from, to string) error {
	return c.atOnce(func() error { return c.filesystem.rename(from, to) })
}

func (c *cutting) remove(name string) error {
	return c.atOnce(func() error { return c.filesystem.remove(name) })
}

func (c *cutting) sync(dir string) error {
	return c.atOnce(func() error { return c.filesystem.sync(dir) })
}

// atOnce does a step of which there is no half. The process may die before or after it.
func (c *cutting) atOnce(step func() error) error {
	whole, half := c.alive()
	switch {
	case whole:
		return step()
	case half:
		return errors.Join(step(), errDead)
	}
	return errDead
}

// TestDeathInEveryStep cuts an update off in each of its steps. A reader has the old set
// or the new one, as a whole, and the next update puts right what was left.
func TestDeathInEveryStep(t *testing.T) {
	old := map[string]string{"a": "old a", "b/c": "old c", "gone": "old", "dir/x": "old x"}
	next := map[string]string{"a": "new a", "b/c": "old c", "came/d": "new", "dir": "now a file"}
	tests := []struct {
		name       string
		old, after map[string]string // nil: none; what is written by the next process
	}{
		{"first", nil, next},
		{"update", old, next},
		{"update, then back", old, old},
		{"update, then another", old, map[string]string{"a": "third", "z": "z"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, half := range []bool{false, true} {
				finished := false
				for steps := 1; !finished; steps++ {
					finished = die(t, death{steps: steps, half: half, durable: tt.name == "update"}, tt.old, next, tt.after)
				}
			}
		})
	}
}

// TestErrorInEveryStep: a step fails, as on a full disk, and the process goes on. A reader has
// the old set or the new one, and nothing of an update that failed is left.
func TestErrorInEveryStep(t *testing.T) {
	old := map[string]string{"a": "old a", "b/c": "old c", "gone": "old"}
	next := map[string]string{"a": "new a", "b/c": "old c", "came/d": "new"}
	for _, half := range []bool{false, true} {
		finished := false
		for steps := 1; !finished; steps++ {
			finished = die(t, death{steps: steps, half: half, lives: true, durable: true}, old, next, next)
		}
	}
}

// death says how an update is cut off.
type death struct {
	steps         int
	half, durable bool
	lives         bool // it is an error only
}

// die cuts off an update from old to next, and reports whether it was through before.
func die(t *testing.T, d death, old, next, after map[string]string) (finished bool) {
	t.Helper()
	w := Writer{Dir: t.TempDir()}
	if old != nil {
		if _, err := w.Write(set(old)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	u := update{root: root, disk: &cutting{filesystem: disk{root: root}, steps: d.steps, half: d.half, lives: d.lives}, durable: d.durable}
	_, err = u.run(set(next))
	for what, got := range map[string]map[string]string{"the data": readData(t, w.Dir), "what users see": readVisible(t, w.Dir)} {
		if !maps.Equal(got, old) && !maps.Equal(got, next) {
			t.Fatalf("%+v: %s is a mix: %v", d, what, got)
		}
	}
	if err == nil {
		holds(t, w.Dir, next)
	} else if !errors.Is(err, errDead) {
		t.Fatalf("%+v: %v", d, err)
	}
	if d.lives {
		onlyNamed(t, w.Dir, d)
	}
	if _, err := w.Write(set(after)); err != nil {
		t.Fatalf("%+v: the next process: %v", d, err)
	}
	holds(t, w.Dir, after)
	if t.Failed() {
		t.Fatalf("%+v", d)
	}
	return err == nil
}

// onlyNamed fails the test if a directory has generations besides the one that is shown and
// the one that could not be removed.
func onlyNamed(t *testing.T, dir string, d death) {
	t.Helper()
	generations := 0
	for _, e := range entries(t, dir) {
		if isGeneration(e) {
			generations++
		}
	}
	if generations < 1 || generations > 2 {
		t.Errorf("%+v: there are %d generations: %v", d, generations, entries(t, dir))
	}
}

// TestReadersWhileWriting: many readers, each of which has one of two sets, never a mix.
func TestReadersWhileWriting(t *testing.T) {
	one := map[string]string{"a": "1", "b": "1", "d/c": "1", "only": "1"}
	two := map[string]string{"a": "2", "b": "2", "d/c": "2", "d/e": "2"}
	w := Writer{Dir: t.TempDir()}
	if _, err := w.Write(set(one)); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := readData(t, w.Dir); !maps.Equal(got, one) && !maps.Equal(got, two) {
					t.Errorf("a reader has %v", got)
					return
				}
			}
		})
	}
	for i := range 60 {
		content := one
		if i%2 == 0 {
			content = two
		}
		if changed, err := w.Write(set(content)); err != nil || !changed {
			t.Errorf("Write is %t, %v", changed, err)
		}
	}
	close(stop)
	readers.Wait()
}

// writerDir is the variable that makes this program write into a directory until it is
// killed.
const writerDir = "ATOMICWRITER_TEST_DIR"

func first() map[string]string {
	return map[string]string{"a": "1", "b": "1", "c/d": "1", "e": "1"}
}

func second() map[string]string {
	return map[string]string{"a": "2", "b": "2", "c/d": "2", "f": "2"}
}

func writeForever(dir string) {
	for {
		for _, content := range []map[string]string{first(), second()} {
			if _, err := (Writer{Dir: dir}).Write(set(content)); err != nil {
				_, _ = os.Stderr.WriteString(err.Error() + "\n")
				os.Exit(1)
			}
		}
	}
}

// TestKilledProcess kills a process that writes all the time, each time a little later.
func TestKilledProcess(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for round := range 10 {
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = append(os.Environ(), writerDir+"="+dir)
		cmd.Stderr = os.Stderr
		before, _ := os.Readlink(dir + "/" + dataLink)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waitForChange(t, dir, before)
		<-time.After(time.Duration(round) * 317 * time.Microsecond) // into another step of an update
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if got := readData(t, dir); !maps.Equal(got, first()) && !maps.Equal(got, second()) {
			t.Fatalf("round %d left %v", round, got)
		}
		if got := readVisible(t, dir); !maps.Equal(got, first()) && !maps.Equal(got, second()) {
			t.Fatalf("round %d shows users %v", round, got)
		}
	}
	if _, err := (Writer{Dir: dir}).Write(set(map[string]string{"last": "1"})); err != nil {
		t.Fatal(err)
	}
	holds(t, dir, map[string]string{"last": "1"})
}

// waitForChange waits until the link to the data is another one.
func waitForChange(t *testing.T, dir, before string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		if now, err := os.Readlink(dir + "/" + dataLink); err == nil && now != before {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the process publishes nothing")
		case <-time.After(time.Millisecond):
		}
	}
}
