// Command conformance runs a set of Kubernetes' end-to-end specs in a cluster on this
// machine and compares the results with the stock binaries'. See "make conformance".
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/conformance/run"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := command(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// command does what the arguments say, and reports whether nothing was lost.
func command(ctx context.Context, args []string) (bool, error) {
	o, err := parse(args, os.Stderr)
	if err != nil {
		return false, err
	}
	if o.page != "" {
		return true, writePage(o)
	}
	outcome, err := o.run(ctx)
	if outcome.Specs != nil {
		err = errors.Join(err, o.print(os.Stdout, outcome))
	}
	if err != nil {
		return false, err
	}
	if err := o.save(ctx, outcome); err != nil {
		return false, err
	}
	return !outcome.Verdict.Failed(), nil
}

// run runs the set, or takes the last run.
func (o *options) run(ctx context.Context) (run.Outcome, error) {
	if o.last {
		return run.Last(ctx, o.config())
	}
	if err := cluster.Prepare(ctx, os.Stderr); err != nil {
		return run.Outcome{}, err
	}
	return run.Run(ctx, o.config())
}

// print writes the table, or JSON.
func (o *options) print(w io.Writer, outcome run.Outcome) error {
	summary := conformance.Summary{
		Set: o.set.Name, Kit: o.kit.Name(o.set), Title: o.kit.Title(o.set), Stock: o.kit.Stock(o.set),
		Versions: outcome.Record.Versions, Wall: outcome.Record.Wall.Seconds(),
		Verdict: outcome.Verdict, Setup: outcome.Setup, Notes: outcome.Notes, Dir: outcome.Dir,
	}
	if o.output != "json" {
		return summary.WriteTable(w)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(summary)
}

// save puts the results under version control, as far as the flags ask for it.
func (o *options) save(ctx context.Context, outcome run.Outcome) error {
	if o.record {
		if err := o.saveRecord(ctx, outcome); err != nil {
			return fmt.Errorf("not recorded: %w", err)
		}
	}
	if !o.ratchet {
		return nil
	}
	if o.kit.Stock(o.set) {
		return errors.New("there is no ratchet for the stock binaries: -record records what they pass")
	}
	ratchet, err := o.tree().Ratchet(o.set, o.kit)
	if err != nil {
		return err
	}
	tighter, added := ratchet.Tighten(outcome.Record.Results)
	fmt.Fprintf(os.Stderr, "the ratchet holds %d specs, %d of them new\n", len(tighter), len(added))
	return o.tree().SaveRatchet(o.set, o.kit, tighter)
}

func (o *options) saveRecord(ctx context.Context, outcome run.Outcome) error {
	if !outcome.Whole() {
		return errors.New("only a run of the whole set is, with a result for each spec")
	}
	runs, err := o.tree().Runs(o.set, o.kit)
	if err != nil {
		return err
	}
	if err := run.CheckLater(ctx, runs.Newest(), outcome.Record); err != nil {
		return err
	}
	return o.tree().Record(o.set, o.kit, outcome.Record)
}

// writePage writes the page to the file of the flag.
func writePage(o *options) error {
	page, err := newPage(o.tree())
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(o.page, text.Bytes(), 0o644)
}

// newPage returns the page of all recorded results.
func newPage(tree run.Tree) (conformance.Page, error) {
	page := conformance.Page{Known: conformance.Differences(), Skips: conformance.Skips(), Omissions: conformance.Omissions()}
	for _, set := range conformance.Sets() {
		chapter, err := tree.Chapter(set)
		if err != nil {
			return page, err
		}
		page.Chapters = append(page.Chapters, chapter)
	}
	var err error
	page.Soaks, err = tree.Soaks()
	return page, err
}
