package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// LoadFiles is Load on a file and the drop-in files of a directory, the flags
// --config and --config-dir of the kubelet. Either may be empty.
//
// Drop-ins are the files of the directory and of those in it whose names end in
// ".conf", in the order of their paths; each is a configuration of its own with
// apiVersion and kind. A later file changes what it names: maps and structs are
// merged, lists and all else are replaced, and null takes a setting back. Hidden
// directories are passed over: a volume of a ConfigMap keeps its files there twice.
// The defaults of the file are there before a drop-in changes it: an evictionHard of a
// drop-in leaves the default thresholds that it does not name in force, and a
// nodeStatusUpdateFrequency leaves nodeStatusReportFrequency alone.
//
// Problems name the file that has the last word on the field, and are in the
// order of files, then of lines.
func LoadFiles(path, dropIns string, honoured []string) (*kubeletv1beta1.KubeletConfiguration, []Problem, error) {
	return LoadSources(Sources{File: path, DropIns: dropIns}, honoured)
}

// LoadSources is LoadFiles with settings that win over all files, as the flags of the
// kubelet do. Without any source the configuration has the defaults alone.
func LoadSources(src Sources, honoured []string) (*kubeletv1beta1.KubeletConfiguration, []Problem, error) {
	var paths []string
	if src.File != "" {
		paths = append(paths, src.File)
	}
	if src.DropIns != "" {
		more, err := dropInPaths(src.DropIns)
		if err != nil {
			return nil, nil, fmt.Errorf("list drop-ins of the kubelet configuration in %s: %w", src.DropIns, err)
		}
		paths = append(paths, more...)
	}
	var files []file
	var errs []error
	for i, path := range paths {
		f, err := readFile(path)
		f.dropIn = src.File == "" || i > 0
		files, errs = append(files, f), append(errs, err)
	}
	for _, o := range src.Overrides {
		f, err := o.file()
		files, errs = append(files, f), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, err
	}
	return load(files, honoured)
}

func dropInPaths(dir string) ([]string, error) {
	var paths []string
	// Through an FS, because a dir that is a link is one to follow.
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(path) == ".conf":
			paths = append(paths, filepath.Join(dir, path))
		}
		return nil
	})
	return paths, err
}

// file is one configuration; path is empty where there is but one.
type file struct {
	path string
	doc  strictyaml.Document
	// override is the setting that this is instead of a file; nil for files.
	override *Override
	// dropIn says that this is from a directory, and changes another configuration.
	dropIn bool
}

// place returns a line of the file; settings have none.
func (f file) place(line int) int {
	if f.override != nil {
		return 0
	}
	return line
}

func readFile(path string) (file, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, fmt.Errorf("read kubelet configuration: %w", err)
	}
	doc, err := single(data)
	if err != nil {
		return file{}, fmt.Errorf("kubelet configuration %s: %w", path, err)
	}
	return file{path: path, doc: doc}, nil
}

// load merges the files, and reports what is wrong with each and with the whole.
func load(files []file, honoured []string) (*kubeletv1beta1.KubeletConfiguration, []Problem, error) {
	if err := checkHonoured(honoured); err != nil {
		return nil, nil, err
	}
	problems, err := checkTypes(files)
	if err != nil {
		return nil, nil, err
	}
	said, err := merge(files)
	if err != nil {
		return nil, nil, err
	}
	for _, field := range unhonoured(said, honoured) {
		problems = append(problems, place(Problem{Field: field, Severity: Warning, Message: loss(field)}, files))
	}
	cfg, err := effective(files)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range validate(cfg) {
		problems = append(problems, place(p, files))
	}
	cfg.ContainerRuntimeEndpoint, cfg.ImageServiceEndpoint = withScheme(cfg.ContainerRuntimeEndpoint), withScheme(cfg.ImageServiceEndpoint)
	order := func(p Problem) int {
		return slices.IndexFunc(files, func(f file) bool { return f.path == p.File })
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	return cfg, problems, nil
}

// checkTypes reports fields that the type does not have or a file has twice. The
// error names every value of a wrong type.
func checkTypes(files []file) ([]Problem, error) {
	var problems []Problem
	var wrong []error
	for _, f := range files {
		for _, issue := range f.doc.Check(&kubeletv1beta1.KubeletConfiguration{}) {
			p := Problem{File: f.path, Line: f.place(issue.Line), Field: issue.Field, Severity: Error, Message: issue.Message}
			if issue.Kind == strictyaml.WrongType {
				wrong = append(wrong, errors.New(p.String()))
				continue
			}
			problems = append(problems, p)
		}
	}
	return problems, errors.Join(wrong...)
}

// place tells where a problem's field stands: in the last file that has it, or
// beside which fields it would.
func place(p Problem, files []file) Problem {
	var at *file
	for i, f := range files {
		if i == 0 && f.override == nil || f.doc.Has(p.Field) {
			at = &files[i]
		}
	}
	if at != nil {
		p.File, p.Line = at.path, at.place(at.doc.LineOf(p.Field))
	}
	return p
}
