package berth_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-backup/berth"

// rooms are the packages of the house with the rooms that each may enter
// (non-test imports, sub-packages included). A room that is not named here does
// not exist.
var rooms = []struct {
	path   string
	enters []string
	reason string
}{
	{"cmd", []string{".", "api", "db", "deploy", "k8ssync", "migrations", "objectstore", "worker", "worker/backup"}, "the only place that wires things"},
	{"api", []string{"."}, "HTTP knows the domain and nothing of how it is stored"},
	{"db/dbtest", []string{"db", "internal/devenv", "migrations"}, "a database for tests comes from the development environment"},
	{"db", []string{".", "migrations"}, "SQL knows the domain; it reads its schema's version from the migrations"},
	{"deploy", nil, "manifests only"},
	{"migrations", nil, "the schema depends on nothing of ours"},
	{"worker/backup", []string{"."}, "the engine knows the domain, not the loops that call it"},
	{"worker", []string{".", "worker/backup"}, "loops ask through interfaces of their own"},
	{"k8ssync", []string{"."}, "the cluster's side asks through interfaces of its own"},
	{"objectstore", []string{"."}, "a store of objects depends on no other room"},
	{"internal/devenv", []string{"deploy", "internal/devenv"}, "no part of the product's story: what it runs, it runs as a user would"},
	{"internal/vectors", nil, "cases for tests: data that every statement of the rule is held against"},
	{".", nil, "the domain is pure and depends on nobody"},
}

// libraries may be imported by the rooms named and by no other.
var libraries = []struct {
	prefix string
	rooms  []string
	reason string
}{
	{"github.com/jackc/pgx", []string{"db", "migrations", "internal/devenv", "cmd"}, "the database's words stop at db"},
	{"database/sql", []string{"migrations"}, "only golang-migrate asks for it"},
	{"github.com/golang-migrate", []string{"migrations"}, "one way to change the schema"},
	{"github.com/go-chi/chi", []string{"api"}, "HTTP stops at api"},
	{"github.com/oapi-codegen", []string{"api"}, "what is generated lives in api"},
	{"github.com/pb33f", []string{"api"}, "the validator stands behind one file of api"},
	{"k8s.io/client-go", []string{"k8ssync", "worker/backup", "internal/devenv", "cmd"}, "the cluster's words stop at its two rooms"},
	{"gocloud.dev", []string{"objectstore"}, "one way to a bucket"},
	{"github.com/spf13/cobra", []string{"cmd"}, "command lines are read in cmd"},
	{"github.com/prometheus", []string{"cmd"}, "metrics are gathered where everything is wired"},
	{"github.com/virtual-kubelet", []string{"internal/devenv"}, "a kubelet is for tests"},
	{"github.com/testcontainers", []string{"db/dbtest"}, "containers are for tests"},
	{"github.com/fergusstrange", []string{"internal/devenv"}, "an embedded Postgres is for development"},
}

// domainImports are all that the root package may import beside the standard
// library without net, os and database/sql.
var domainImports = []string{
	"github.com/google/uuid", "github.com/robfig/cron",
	"k8s.io/apimachinery/pkg/labels", "k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/util/validation",
	"k8s.io/apimachinery/pkg/types",
}

// forbiddenNames say nothing about what stands in them.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "models", "misc"}

type sourceFile struct {
	path, dir string
	imports   []string
}

// sources reads every Go file of this module, tools and other modules left out.
func sources(t *testing.T) (files []sourceFile, packageComments map[string]bool) {
	t.Helper()
	packageComments = map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "tools" || entry.Name() == "testdata" || entry.Name() == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		file := sourceFile{path: filepath.ToSlash(path), dir: filepath.ToSlash(filepath.Dir(path))}
		for _, imported := range parsed.Imports {
			text, err := strconv.Unquote(imported.Path.Value)
			if err != nil {
				return err
			}
			file.imports = append(file.imports, text)
		}
		files = append(files, file)
		packageComments[file.dir] = packageComments[file.dir] || parsed.Doc != nil
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files were found")
	}
	return files, packageComments
}

func inside(path, room string) bool {
	return path == room || room != "." && strings.HasPrefix(path, room+"/")
}

// roomOf is the most particular room that a folder stands in: -1 for none.
func roomOf(dir string) int {
	return slices.IndexFunc(rooms, func(r struct {
		path   string
		enters []string
		reason string
	}) bool {
		return inside(dir, r.path)
	})
}

// Rooms never import each other but as drawn: what one needs of another it asks
// for through an interface of its own, and cmd wires them.
func TestDependencyRule(t *testing.T) {
	t.Parallel()
	files, _ := sources(t)
	for _, file := range files {
		for _, problem := range importProblems(file) {
			t.Errorf("%s: %s", file.path, problem)
		}
	}
}

func importProblems(file sourceFile) []string {
	at := roomOf(file.dir)
	if at < 0 {
		return []string{"this folder is no room of the house"}
	}
	room := rooms[at]
	var problems []string
	for _, imported := range file.imports {
		switch own, isOwn := strings.CutPrefix(imported, module); {
		case isOwn:
			target := strings.TrimPrefix(own, "/")
			if target == "" {
				target = "."
			}
			to := roomOf(target)
			if to >= 0 && (rooms[to].path == room.path || slices.Contains(room.enters, rooms[to].path)) {
				continue
			}
			problems = append(problems, fmt.Sprintf("imports %s: %s", imported, room.reason))
		default:
			problems = append(problems, libraryProblems(file, room.path, imported)...)
		}
	}
	return problems
}

func libraryProblems(file sourceFile, room, imported string) []string {
	var problems []string
	for _, library := range libraries {
		if !inside(imported, library.prefix) {
			continue
		}
		if !slices.ContainsFunc(library.rooms, func(allowed string) bool { return inside(file.dir, allowed) || room == allowed }) {
			problems = append(problems, fmt.Sprintf("imports %s: %s", imported, library.reason))
		}
	}
	if room != "." {
		return problems
	}
	first, _, _ := strings.Cut(imported, "/")
	if strings.Contains(first, ".") {
		if !slices.ContainsFunc(domainImports, func(allowed string) bool { return inside(imported, allowed) }) {
			problems = append(problems, fmt.Sprintf("imports %s: the domain takes pure libraries only", imported))
		}
	} else if inside(imported, "net") || inside(imported, "os") || inside(imported, "database/sql") {
		problems = append(problems, fmt.Sprintf("imports %s: the domain touches nothing outside", imported))
	}
	return problems
}

// The rule refuses what it is there to refuse.
func TestDependencyRuleRefuses(t *testing.T) {
	t.Parallel()
	for _, wrong := range []sourceFile{
		{dir: ".", imports: []string{"os"}},
		{dir: ".", imports: []string{"net/http"}},
		{dir: ".", imports: []string{"github.com/jackc/pgx/v5"}},
		{dir: ".", imports: []string{module + "/db"}},
		{dir: "api", imports: []string{module + "/db"}},
		{dir: "api", imports: []string{"github.com/jackc/pgx/v5/pgconn"}},
		{dir: "worker", imports: []string{"k8s.io/client-go/rest"}},
		{dir: "worker/backup", imports: []string{module + "/worker"}},
		{dir: "worker/backup", imports: []string{module + "/objectstore"}},
		{dir: "db", imports: []string{module + "/db/dbtest"}},
		{dir: "k8ssync", imports: []string{"github.com/go-chi/chi/v5"}},
		{dir: "helpers", imports: nil},
	} {
		if len(importProblems(wrong)) == 0 {
			t.Errorf("%s may import %v", wrong.dir, wrong.imports)
		}
	}
}

// Every package says what it is for.
func TestPackageComments(t *testing.T) {
	t.Parallel()
	_, comments := sources(t)
	for dir, commented := range comments {
		if !commented {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// One file, one idea, named so: names that fit everything name nothing.
func TestNames(t *testing.T) {
	t.Parallel()
	files, _ := sources(t)
	for _, file := range files {
		for _, part := range strings.Split(strings.TrimSuffix(file.path, ".go"), "/") {
			if slices.Contains(forbiddenNames, part) {
				t.Errorf("%s: %q says nothing about what stands there", file.path, part)
			}
		}
	}
}
