package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// burst starts many pods at once on real containerds, by each kubelet in turns.
func (b *bench) burst(ctx context.Context) error {
	rt, err := cluster.ParseRuntime(b.runtime)
	if err != nil {
		return err
	}
	image := testnode.Life()
	var sides []*side
	for _, source := range []cluster.Source{cluster.Stock, cluster.Ours} {
		s, err := b.addSide(ctx, source, cluster.NodeConfig{Runtime: rt, KubeletSettings: map[string]any{"maxPods": b.pods + 20}},
			func(s *side) error { return s.ImportImage(ctx, image) })
		if err != nil {
			return err
		}
		sides = append(sides, s)
	}
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "round\tkubelet\tfirst\tmedian\tlast\tCPU/start\tall gone\tCPU/stop")
	rows := map[cluster.Source][]row{}
	for round := range b.rounds {
		for _, s := range sides {
			r, err := s.measureBurst(ctx, image.Ref)
			if err != nil {
				return err
			}
			rows[s.source] = append(rows[s.source], r)
			fmt.Fprintf(t, "%d\t%s\t%.2f s\t%.2f s\t%.2f s\t%.1f ms\t%.1f s\t%.1f ms\n", round+1, s.source,
				r.first, r.median, r.last, r.start, r.gone, r.stop)
			t.Flush()
		}
		slices.Reverse(sides)
	}
	stock, ours := best(rows[cluster.Stock]), best(rows[cluster.Ours])
	fmt.Fprintf(t, "\tratio of the medians\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\n", ours.first/stock.first, ours.median/stock.median,
		ours.last/stock.last, ours.start/stock.start, ours.gone/stock.gone, ours.stop/stock.stop)
	return t.Flush()
}

// row is what one burst took: seconds, and milliseconds of CPU per pod.
type row struct{ first, median, last, start, gone, stop float64 }

// best returns the medians over all rounds.
func best(rows []row) row {
	pick := func(field func(row) float64) float64 {
		var all []float64
		for _, r := range rows {
			all = append(all, field(r))
		}
		slices.Sort(all)
		return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	return row{
		pick(func(r row) float64 { return r.first }), pick(func(r row) float64 { return r.median }), pick(func(r row) float64 { return r.last }),
		pick(func(r row) float64 { return r.start }), pick(func(r row) float64 { return r.gone }), pick(func(r row) float64 { return r.stop }),
	}
}

func (s *side) measureBurst(ctx context.Context, image string) (row, error) {
	before, err := s.kubeletUse()
	if err != nil {
		return row{}, err
	}
	ready, err := s.makePods(ctx, s.pods, template("burst", image))
	if err != nil {
		return row{}, err
	}
	between, err := s.kubeletUse()
	if err != nil {
		return row{}, err
	}
	gone, err := s.removePods(ctx)
	if err != nil {
		return row{}, err
	}
	after, err := s.kubeletUse()
	slices.Sort(ready)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 / float64(s.pods) }
	return row{
		first: ready[0].Seconds(), median: ready[len(ready)/2].Seconds(), last: ready[len(ready)-1].Seconds(),
		start: ms(between.cpu - before.cpu), gone: gone.Seconds(), stop: ms(after.cpu - between.cpu),
	}, err
}
