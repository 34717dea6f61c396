package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// Config says what to run and where to keep it.
type Config struct {
	// Set is the specs, and Kit what the nodes are made of.
	Set conformance.Set
	Kit conformance.Kit
	// Focus and Skip narrow the set by regular expressions. Empty changes nothing. A run
	// of a narrowed set has a journal of its own: it neither counts for a whole run nor
	// puts an end to one that was killed.
	Focus, Skip string
	// Dir is the folder for the results of all sets. Required.
	Dir string
	// Tree holds the files under version control. Required.
	Tree Tree
	// Procs is how many specs run at the same time. Zero means 6. It is 1 for a set of a
	// kubelet without API server.
	Procs int
	// Fresh forgets the results of a run that was killed.
	Fresh bool
	// Resume goes on with a run that was killed and the programs that it began with,
	// whatever the working tree holds now. Without it a run goes on only where the
	// working tree still makes the same programs.
	Resume bool
	// Programs is the folder with our programs, as absolute path. It is set by [Run].
	Programs string
	// Groups are the specs that run together. They are set by [Run].
	Groups conformance.Groups
	// Progress receives a line per step. Nil means silence.
	Progress func(string)
}

func (cfg Config) narrowed() bool { return cfg.Focus != "" || cfg.Skip != "" }

// Outcome is a run's results and what they mean.
type Outcome struct {
	// Record is the whole results; see [Outcome.Whole].
	Record conformance.Record
	// Specs are those that were asked for.
	Specs []string
	// Verdict compares them with what has passed before and with the stock results.
	Verdict conformance.Verdict
	// Setup are failures outside of specs.
	Setup []string
	// Notes say which recorded results do not count on this host.
	Notes []string
	// Dir is the folder of this run.
	Dir string
	// Narrowed is true when focus or skip were to leave specs of the set out.
	Narrowed bool
}

// Whole reports whether each spec of the set has a result.
func (o Outcome) Whole() bool { return !o.Narrowed && o.Verdict.Count.Missing == 0 }

// environment is what the specs run against.
type environment interface {
	// run runs the suite for the specs, keeps reports in dir, and hands each result
	// to add as soon as it is known, maybe more than once.
	run(ctx context.Context, dir string, specs []string, add func(conformance.Result) error) (setup []string, err error)
	// versions names the runtime.
	versions(ctx context.Context) ([]string, error)
	// stop ends and removes it.
	stop(ctx context.Context) error
}

// Run runs the set. An error means that the run could not be made or go on; what it
// has found until then is kept. Whether specs failed is in the outcome.
func Run(ctx context.Context, cfg Config) (Outcome, error) {
	r := newRunner(cfg)
	if err := r.prepare(ctx); err != nil {
		return Outcome{}, fmt.Errorf("prepare the run: %w", err)
	}
	err := r.finish(ctx)
	outcome, err1 := r.outcome(r.journal.Past())
	return outcome, errors.Join(err, err1, r.journal.Close())
}

// Last returns the outcome of the last run without running anything.
func Last(ctx context.Context, cfg Config) (Outcome, error) {
	r := newRunner(cfg)
	if err := r.choose(ctx); err != nil {
		return Outcome{}, err
	}
	if err := r.compareWith(); err != nil {
		return Outcome{}, err
	}
	past, err := conformance.ReadJournal(r.journalPath())
	if err != nil {
		return Outcome{}, fmt.Errorf("find the last run: %w", err)
	}
	past.Results = conformance.Latest(past.Results)
	return r.outcome(past)
}

// runner is a run on its way.
type runner struct {
	cfg     Config
	dir     string
	specs   []string // What was asked for.
	ratchet conformance.Ratchet
	stock   conformance.Runs // All that are recorded of the yardstick.
	journal *conformance.Journal
	setup   []string
	// start makes what the specs run against.
	start func(ctx context.Context, cfg Config, dir string) (environment, error)
}

func newRunner(cfg Config) *runner {
	if cfg.Progress == nil {
		cfg.Progress = func(string) {}
	}
	switch {
	case cfg.Set.Standalone: // There is one kubelet, and each spec has it for itself.
		cfg.Procs = 1
	case cfg.Procs == 0:
		cfg.Procs = 6
	}
	dir := filepath.Join(cfg.Dir, cfg.Set.Name, cfg.Kit.Name(cfg.Set))
	if cfg.narrowed() {
		dir = filepath.Join(dir, "narrowed")
	}
	return &runner{cfg: cfg, dir: dir, start: start}
}

func (r *runner) journalPath() string { return filepath.Join(r.dir, "journal.jsonl") }

// prepare decides what to run and opens the journal.
func (r *runner) prepare(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if err := r.choose(ctx); err != nil {
		return err
	}
	if err := r.compareWith(); err != nil {
		return err
	}
	var err error
	if r.cfg.Groups, err = findGroups(ctx, r.cfg.Set); err != nil {
		return err
	}
	if r.cfg.Fresh {
		if err := os.RemoveAll(r.journalPath()); err != nil {
			return err
		}
	}
	heading, err := r.heading(ctx)
	if err != nil {
		return err
	}
	if r.cfg.Programs, err = filepath.Abs(r.buildDir()); err != nil {
		return err
	}
	r.journal, err = conformance.OpenJournal(r.journalPath(), heading, r.specs)
	return err
}

// choose finds the specs of the set.
func (r *runner) choose(ctx context.Context) error {
	r.cfg.Progress("asking the suite for its specs")
	offered, err := listSpecs(ctx, r.cfg.Set)
	if err != nil {
		return err
	}
	set, err := r.cfg.Set.Select(offered)
	if err != nil {
		return err
	}
	r.specs, err = conformance.Narrow(set, r.cfg.Focus, r.cfg.Skip)
	if err == nil && len(r.specs) == 0 {
		err = fmt.Errorf("no spec of the set %s matches", r.cfg.Set.Name)
	}
	return err
}

// compareWith reads what the results are compared with.
func (r *runner) compareWith() (err error) {
	set, kit := r.cfg.Set, r.cfg.Kit
	if r.stock, err = r.cfg.Tree.Runs(set, kit.Yardstick()); err != nil {
		return err
	}
	if !kit.Stock(set) {
		r.ratchet, err = r.cfg.Tree.Ratchet(set, kit.Recorded())
	}
	return err
}

// finish runs what has no result yet, and once more what failed.
func (r *runner) finish(ctx context.Context) (err error) {
	todo := conformance.Missing(r.specs, r.journal.Past().Results)
	if len(todo) == 0 {
		return nil
	}
	r.cfg.Progress(fmt.Sprintf("%d of %d specs to run: %s, %s", len(todo), len(r.specs), r.cfg.Set.Name, r.cfg.Kit.Title(r.cfg.Set)))
	env, err := r.start(ctx, r.cfg, r.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.stop(ctx)) }()
	if err := r.noteRuntime(ctx, env); err != nil {
		return err
	}
	bar, err := r.bar(r.journal.Past())
	if err != nil {
		return err
	}
	for _, note := range bar.notes {
		r.cfg.Progress(note)
	}
	for _, result := range bar.excused.Results {
		if slices.Contains(todo, result.Spec) {
			err = errors.Join(err, r.journal.Add(result))
		}
	}
	if err != nil {
		return err
	}
	todo = slices.DeleteFunc(todo, func(spec string) bool { return !slices.Contains(bar.excused.Run, spec) })
	if len(todo) == 0 {
		return nil
	}
	todo = r.cfg.Groups.Whole(todo, bar.excused.Run)
	if err := r.part(ctx, env, todo); err != nil {
		return err
	}
	return r.again(ctx, env, todo, bar)
}

// noteRuntime keeps the runtime's version. A run has one: results of another say nothing
// about it.
func (r *runner) noteRuntime(ctx context.Context, env environment) error {
	runtime, err := env.versions(ctx)
	if err != nil {
		return err
	}
	if began := r.journal.Past().Runtime; began != nil && !slices.Equal(began, runtime) {
		return fmt.Errorf("the run began on %s and this is %s: FRESH=1 begins anew", strings.Join(began, ", "), strings.Join(runtime, ", "))
	}
	return r.journal.SetRuntime(runtime)
}

// again gives specs that failed a second chance, whosever binaries run: one that passes
// then is flaky, not lost.
func (r *runner) again(ctx context.Context, env environment, ran []string, bar bar) error {
	specs := bar.demand.Again(ran, r.journal.Past().Results, bar.stock)
	const most = 20 // More than that is no flake.
	if len(specs) == 0 || len(specs) > most {
		return nil
	}
	r.cfg.Progress(fmt.Sprintf("once more: %d specs that failed, and not always with the stock binaries", len(specs)))
	return r.part(ctx, env, r.cfg.Groups.Whole(specs, ran))
}

// part runs the suite once, in a folder of its own.
func (r *runner) part(ctx context.Context, env environment, specs []string) error {
	dir, err := nextPart(r.dir)
	if err != nil {
		return err
	}
	stop := clock{procs: r.cfg.Procs, add: r.journal.AddStretch, load: loadAverage}.start(ctx)
	setup, err := env.run(ctx, dir, specs, r.journal.Add)
	r.setup = append(r.setup, setup...)
	return errors.Join(err, stop())
}

// nextPart makes the next of the folders part-1, part-2, ….
func nextPart(dir string) (string, error) {
	for number := 1; ; number++ {
		part := filepath.Join(dir, fmt.Sprintf("part-%d", number))
		err := os.Mkdir(part, 0o755)
		if err == nil || !errors.Is(err, os.ErrExist) {
			return part, err
		}
	}
}

func (r *runner) outcome(past conformance.Past) (Outcome, error) {
	bar, err := r.bar(past)
	if err != nil {
		return Outcome{}, err
	}
	asked := map[string]bool{}
	for _, spec := range r.specs {
		asked[spec] = true
	}
	results := slices.DeleteFunc(past.Results, func(result conformance.Result) bool { return !asked[result.Spec] })
	return Outcome{
		Record: conformance.Record{
			Set: past.Heading.Set, Kit: past.Heading.Kit, Date: past.Heading.Began,
			Versions: allVersions(past), Build: past.Heading.Build,
			Wall: past.Wall, Load: past.Load, Procs: past.Procs, Results: results,
		},
		Specs:    r.specs,
		Verdict:  conformance.Judge(r.specs, results, bar.demand),
		Setup:    r.setup,
		Notes:    bar.notes,
		Dir:      r.dir,
		Narrowed: r.cfg.narrowed(),
	}, nil
}

func allVersions(past conformance.Past) []string {
	all := slices.Clone(past.Heading.Versions)
	if commit := past.Heading.Commit; commit != "" {
		all = append(all, "nodekit "+commit)
	}
	return append(all, past.Runtime...)
}

// start makes what the set's specs run against.
func start(ctx context.Context, cfg Config, dir string) (environment, error) {
	if cfg.Set.Suite == conformance.E2ENode {
		return startNode(ctx, cfg, dir)
	}
	return startCluster(ctx, cfg, dir)
}
