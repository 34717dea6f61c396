package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// suiteLimit ends a part of a run that hangs.
const suiteLimit = 4 * time.Hour

// interruptDelay is how long the suite may clean up after an interrupt.
const interruptDelay = 2 * time.Minute

// reportFile is Ginkgo's report in the folder of a part.
const reportFile = "report.json"

// suiteRun is one run of a suite.
type suiteRun struct {
	dir      string // For its output and reports.
	specs    []string
	add      func(conformance.Result) error // Called from one goroutine at a time.
	progress func(string)
}

// ginkgoArguments are Ginkgo's own part of a command line that runs the specs. Many
// specs are skipped for each one that runs; their names would be most of the output.
func ginkgoArguments(ginkgo, dir string, specs []string, procs int) []string {
	return []string{
		ginkgo, "run", "-v", "--silence-skips", "--no-color", "--procs=" + strconv.Itoa(min(procs, len(specs))),
		"--timeout=" + suiteLimit.String(), "--output-dir=" + dir, "--json-report=" + reportFile,
		"--focus=" + conformance.FocusFor(specs),
	}
}

// run runs the command of a suite with its output in a file, and hands the results to
// add: those of specs that passed as the output tells of them, and all of the report's.
// When ctx ends, the suite is interrupted, as by Ctrl-C, and writes its report of what
// it has done so far. That specs failed is no error.
func (s suiteRun) run(ctx context.Context, cmd *exec.Cmd) ([]string, error) {
	log, err := os.Create(filepath.Join(s.dir, "suite.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var addErr error
	done := 0
	stream := conformance.NewStream(s.specs, func(result conformance.Result) {
		done++
		s.progress(fmt.Sprintf("%d/%d passed: %s", done, len(s.specs), result.Spec))
		addErr = errors.Join(addErr, s.add(result))
	})
	// One writer for both, so that no two goroutines write.
	output := io.MultiWriter(log, stream)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = interruptDelay
	runErr := cmd.Run()
	if addErr != nil {
		return nil, addErr
	}
	report, err := readReport(filepath.Join(s.dir, reportFile))
	if err != nil {
		return nil, fmt.Errorf("run the suite (log: %s): %w", log.Name(), errors.Join(runErr, err))
	}
	for _, result := range report.Results {
		if err := s.add(result); err != nil {
			return nil, err
		}
	}
	if ctx.Err() != nil {
		return report.Setup, ctx.Err()
	}
	if len(report.Results) == 0 {
		return report.Setup, fmt.Errorf("the suite ran no spec (log: %s): %v", log.Name(), report.Setup)
	}
	return report.Setup, nil
}

func readReport(path string) (report conformance.Report, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return report, errors.New("it wrote no report")
	}
	if err != nil {
		return report, err
	}
	defer file.Close()
	return conformance.ParseReport(io.LimitReader(file, 1<<30))
}

// suiteProgram links a suite into dir under a name that Ginkgo takes for a compiled
// suite.
func suiteProgram(ctx context.Context, suite conformance.Suite, dir string) (string, error) {
	binary, err := tool(ctx, string(suite))
	if err != nil {
		return "", err
	}
	link := filepath.Join(dir, string(suite)+".test")
	if err := os.Symlink(binary, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}
