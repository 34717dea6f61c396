package podsync_test

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/test/story"
)

// TestEveryCaseHasAStory reads the index of the cases of Kubernetes' own tests of the
// life of containers: each of the 132 has a story, which says what has to hold in it.
func TestEveryCaseHasAStory(t *testing.T) {
	const want = 132
	groups, err := readCases(filepath.Join("testdata", "cases.txt"))
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, g := range groups {
		if len(g.cases) != g.size {
			t.Errorf("group %q has %d cases, want %d", g.title, len(g.cases), g.size)
		}
		if !strings.Contains(g.title, "beside the 132") {
			total += len(g.cases)
		}
		told := map[string]bool{}
		for _, c := range g.cases {
			if told[c.title] {
				t.Errorf("group %q has case %q twice", g.title, c.title)
			}
			told[c.title] = true
			if err := tellsSomething(c.story); err != nil {
				t.Errorf("case %q of group %q: %v", c.title, g.title, err)
			}
		}
	}
	if total != want {
		t.Errorf("the index has %d cases, want %d", total, want)
	}
}

// caseGroup are cases that belong together. Size is how many there are to be.
type caseGroup struct {
	title string
	size  int
	cases []lifecycleCase
}

type lifecycleCase struct{ title, story string }

// readCases reads an index: lines "[size] title" begin a group, lines "title -> story"
// are its cases.
func readCases(path string) ([]caseGroup, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var groups []caseGroup
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.HasPrefix(line, "[") {
			var g caseGroup
			head, title, _ := strings.Cut(line, " ")
			if _, err := fmt.Sscanf(head, "[%d]", &g.size); err != nil {
				return nil, fmt.Errorf("group %q: %w", line, err)
			}
			g.title = title
			groups = append(groups, g)
			continue
		}
		title, name, found := strings.Cut(line, " -> ")
		if !found || name == "" || len(groups) == 0 {
			return nil, fmt.Errorf("case %q has no story or no group", line)
		}
		g := &groups[len(groups)-1]
		g.cases = append(g.cases, lifecycleCase{title: title, story: name})
	}
	return groups, lines.Err()
}

// tellsSomething fails unless there is a story of a name, and something has to hold in
// it.
func tellsSomething(name string) error {
	raw, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)+".txtar"))
	if err != nil {
		return err
	}
	s, err := story.Parse(raw)
	if err != nil {
		return err
	}
	if len(s.Expect) == 0 {
		return fmt.Errorf("story %s expects nothing", name)
	}
	return nil
}
