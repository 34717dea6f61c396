package conformance

import (
	"encoding/json"
	"fmt"
	"io"
)

// Groups says which specs belong together: those of one container of Ginkgo's. Where the
// container is Ordered the first spec does what the others look at, so they cannot run
// without it. Reports do not tell which containers are.
type Groups struct {
	of      map[string]codeLocation
	members map[codeLocation][]string
}

// orderedSize is how many specs a container has at most whose specs are taken for a
// sequence. Those of the suites that are have up to six.
const orderedSize = 8

// ParseGroups reads Ginkgo's JSON report of a suite, of a dry run for example.
func ParseGroups(r io.Reader) (Groups, error) {
	g := Groups{of: map[string]codeLocation{}, members: map[codeLocation][]string{}}
	var suites []suiteReport
	if err := json.NewDecoder(r).Decode(&suites); err != nil {
		return g, fmt.Errorf("read report: %w", err)
	}
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			if n := len(spec.ContainerHierarchyLocations); spec.LeafNodeType == "It" && n > 0 {
				at, name := spec.ContainerHierarchyLocations[n-1], spec.name()
				if _, known := g.of[name]; !known {
					g.of[name] = at
					g.members[at] = append(g.members[at], name)
				}
			}
		}
	}
	return g, nil
}

// Whole returns the specs, in their order, each followed by those of offered that may not
// run without it, or it without them.
func (g Groups) Whole(specs, offered []string) []string {
	may := make(map[string]bool, len(offered))
	for _, spec := range offered {
		may[spec] = true
	}
	var whole []string
	taken := map[string]bool{}
	take := func(spec string) {
		if !taken[spec] {
			taken[spec] = true
			whole = append(whole, spec)
		}
	}
	for _, spec := range specs {
		take(spec)
		for _, sibling := range g.siblings(spec) {
			if may[sibling] {
				take(sibling)
			}
		}
	}
	return whole
}

// siblings returns the specs of the group of a spec, nil if it is no sequence.
func (g Groups) siblings(spec string) []string {
	at, known := g.of[spec]
	if !known || len(g.members[at]) > orderedSize {
		return nil
	}
	return g.members[at]
}

// Batches cuts specs into batches of at most size, so that no group that may be a
// sequence is cut.
func (g Groups) Batches(specs []string, size int) [][]string {
	var batches [][]string
	var batch []string
	done := map[string]bool{}
	for _, spec := range specs {
		if done[spec] {
			continue
		}
		group := g.Whole([]string{spec}, specs)
		for _, member := range group {
			done[member] = true
		}
		if len(batch) > 0 && len(batch)+len(group) > size {
			batches, batch = append(batches, batch), nil
		}
		batch = append(batch, group...)
	}
	if len(batch) > 0 {
		batches = append(batches, batch)
	}
	return batches
}
