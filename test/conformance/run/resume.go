package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// heading decides which programs run and returns the heading of the journal: that of a
// run that goes on, or of a new one.
func (r *runner) heading(ctx context.Context) (conformance.Heading, error) {
	others, err := versions(ctx, r.cfg)
	if err != nil {
		return conformance.Heading{}, err
	}
	past, err := conformance.ReadJournal(r.journalPath())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return conformance.Heading{}, err
	}
	if r.cfg.Resume {
		return r.resumed(past, others)
	}
	dir, err := r.compile(ctx)
	if err != nil {
		return conformance.Heading{}, err
	}
	heading := conformance.Heading{
		Set: r.cfg.Set.Name, Kit: r.cfg.Kit.Name(r.cfg.Set), Focus: r.cfg.Focus, Skip: r.cfg.Skip,
		Versions: others, Began: time.Now().UTC().Truncate(time.Second),
	}
	if heading.Build, err = r.sums(dir); err != nil {
		return heading, err
	}
	if len(heading.Build) > 0 {
		heading.Commit = workingTree(ctx)
	}
	r.sayWhatIsGivenUp(past, heading)
	return heading, r.keepBuild(dir)
}

// resumed returns the heading of the run that was killed, as it was.
func (r *runner) resumed(past conformance.Past, others []string) (conformance.Heading, error) {
	heading := past.Heading
	if len(conformance.Missing(r.specs, past.Results)) == 0 || heading.Set == "" {
		return heading, errors.New("there is no run to go on with: each spec of the last one has a result, or there was none")
	}
	if heading.Focus != r.cfg.Focus || heading.Skip != r.cfg.Skip {
		return heading, fmt.Errorf("the run began with FOCUS=%q SKIP=%q: FRESH=1 begins anew", heading.Focus, heading.Skip)
	}
	if !slices.Equal(heading.Versions, others) {
		return heading, fmt.Errorf("the run began with %s, and this is %s: FRESH=1 begins anew",
			strings.Join(heading.Versions, ", "), strings.Join(others, ", "))
	}
	build, err := r.sums(r.buildDir())
	if err != nil {
		return heading, err
	}
	if !slices.Equal(build, heading.Build) {
		return heading, fmt.Errorf("%s holds %s, and the run began with %s: FRESH=1 begins anew", r.buildDir(),
			strings.Join(build, ", "), strings.Join(heading.Build, ", "))
	}
	return heading, nil
}

// sayWhatIsGivenUp tells that the results of a run that was killed do not count for this
// one.
func (r *runner) sayWhatIsGivenUp(past conformance.Past, heading conformance.Heading) {
	have := len(conformance.Latest(past.Results))
	selected := past.Heading.Focus == heading.Focus && past.Heading.Skip == heading.Skip
	if have == 0 || past.Heading.Same(heading) || selected && len(conformance.Missing(r.specs, past.Results)) == 0 {
		return
	}
	if !selected {
		r.cfg.Progress(fmt.Sprintf("a new run begins: that of %s, with %d results, was of FOCUS=%q SKIP=%q",
			past.Heading.Began.Format(time.RFC3339), have, past.Heading.Focus, past.Heading.Skip))
		return
	}
	r.cfg.Progress(fmt.Sprintf("a new run begins: that of %s, with %d results, was of other programs (%s)",
		past.Heading.Began.Format(time.RFC3339), have, strings.Join(slices.Concat(past.Heading.Versions, past.Heading.Build), ", ")))
}
