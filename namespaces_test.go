package berth_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/internal/vectors"
)

// vector is one case of namespace_patterns.json, derived from Velero's tests
// and code.
type vector struct {
	ID, Kind string
	// syntax
	Pattern           string
	PassesSyntaxCheck bool `json:"passes_syntax_check"`
	GlobCompiles      bool `json:"glob_compiles"`
	// expand
	Patterns []string
	// resolve
	Include, Exclude []string

	Active []string
	Expect json.RawMessage // the names, or the word error
}

// refused are the vectors that Velero takes and Berth does not, on purpose.
var refused = map[string]string{
	"e15": "no namespace can be called app.prod or app+",
	"r09": "Velero's matcher takes braces, which its check refuses",
	"r10": "Velero's check takes [a-z0-9], which its matcher cannot compile: the exclude is ignored there",
}

// The vectors of Velero's matcher, except for needs_expansion, which is an
// internal of its. BERTH_VECTORS names a folder with others.
func TestVectors(t *testing.T) {
	t.Parallel()
	folder := vectors.Folder(".")
	text, err := os.ReadFile(filepath.Join(folder, "namespace_patterns.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, v := range all {
		test, known := map[string]func(*testing.T, vector){"syntax": testSyntax, "expand": testExpand, "resolve": testResolve}[v.Kind]
		if !known {
			if v.Kind != "needs_expansion" {
				t.Errorf("%s: unknown kind %q", v.ID, v.Kind)
			}
			continue
		}
		ran++
		t.Run(v.ID, func(t *testing.T) { test(t, v) })
	}
	t.Logf("%d vectors ran", ran)
	if ran < 1 {
		t.Errorf("%s has no vector that could run", folder)
	}
}

// What the checker accepts the matcher accepts, by construction: where Velero's
// two disagree (s11, s12, s17), Berth refuses.
func testSyntax(t *testing.T, v vector) {
	_, err := berth.ParsePattern(v.Pattern)
	if accepted := err == nil; accepted != (v.PassesSyntaxCheck && v.GlobCompiles) {
		t.Errorf("ParsePattern(%q): %v; Velero's check takes it: %v, its matcher: %v", v.Pattern, err, v.PassesSyntaxCheck, v.GlobCompiles)
	}
}

// A literal stands for itself whether it is there or not.
func testExpand(t *testing.T, v vector) {
	var got []string
	for _, text := range v.Patterns {
		p, err := berth.ParsePattern(text)
		if err != nil {
			checkRefused(t, v, err)
			return
		}
		if p.Literal() {
			got = append(got, p.String())
			continue
		}
		for _, name := range v.Active {
			if p.Match(name) {
				got = append(got, name)
			}
		}
	}
	slices.Sort(got)
	checkNames(t, v, slices.Compact(got))
}

// The contents of a backup: of what is there, what its scope contains. (What it
// claims is more: r03's ghost, and r04 claims nothing.)
func testResolve(t *testing.T, v vector) {
	scope, problems := berth.ScopeOf(v.Include, v.Exclude)
	if problems != nil {
		checkRefused(t, v, &berth.Error{Code: berth.CodeValidationFailed, Fields: problems})
		return
	}
	var got []string
	for _, name := range v.Active {
		if scope.Contains(name) {
			got = append(got, name)
		}
	}
	checkNames(t, v, got)
}

func checkRefused(t *testing.T, v vector, err error) {
	t.Helper()
	if reason, onPurpose := refused[v.ID]; onPurpose {
		t.Logf("refused on purpose: %s", reason)
		return
	}
	if !bytes.Equal(v.Expect, []byte(`"error"`)) {
		t.Errorf("refused: %v; want %s", err, v.Expect)
	}
}

func checkNames(t *testing.T, v vector, got []string) {
	t.Helper()
	if reason, onPurpose := refused[v.ID]; onPurpose {
		t.Errorf("taken, where it is to be refused: %s", reason)
	}
	var want []string
	if err := json.Unmarshal(v.Expect, &want); err != nil {
		t.Fatalf("got %q, want %s", got, v.Expect)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A bad entry is refused, whatever is wrong with it.
func TestParsePatternRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"/", "**", "a**b", "[", "]", "[]", "a[", "a]b", "[z-a]", "[a-z0-9]", "[a-]", "[-a]", "[--a]", "[---]", "[^a]", "[!a]", "[a[b]]", "[a*]", "[?]",
		"{a,b}", "a|b", "(a)", "!a", "a,b", `\`, `a\*`, "A", "a_b", "a.b", "-a", "a-", "a b", " ", "a\n", "a\x00", "ä", "a\xff",
		strings.Repeat("a", 64), strings.Repeat("*a", 40),
	} {
		if _, err := berth.ParsePattern(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// A list of ten thousand entries is read, and each bad one is pointed at.
func TestScopeOfManyEntries(t *testing.T) {
	t.Parallel()
	includes := make([]string, 10_000)
	for i := range includes {
		includes[i] = "a*"
	}
	includes[17], includes[9_999] = "/", "[]"
	_, problems := berth.ScopeOf(includes, nil)
	var pointers []string
	for _, p := range problems {
		pointers = append(pointers, p.Pointer)
	}
	if diff := cmp.Diff([]string{"/includedNamespaces/17", "/includedNamespaces/9999"}, pointers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Patterns drawn from the characters that mean something, and names. Each test
// has generators of its own, since one cannot be shared by two that run at once.
func anyEntry() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.RuneFrom([]rune("abc-*?[]{.")), 0, 8, -1)
}

func anyName() *rapid.Generator[string] { return rapid.StringMatching(`[abc]([abc-]{0,4}[abc])?`) }

// What ParsePattern accepts matches any text without a panic, and names as
// Go's path.Match does.
func TestMatchProperties(t *testing.T) {
	t.Parallel()
	entry, anyName := anyEntry(), anyName()
	rapid.Check(t, func(t *rapid.T) {
		p, err := berth.ParsePattern(entry.Draw(t, "pattern"))
		if err != nil {
			t.Skip("refused")
		}
		p.Match(rapid.String().Draw(t, "text"))
		name := anyName.Draw(t, "name")
		checkLikePathMatch(t, p, name)
	})
}

func checkLikePathMatch(t interface{ Errorf(string, ...any) }, p berth.Pattern, name string) {
	want, err := path.Match(p.String(), name)
	if err != nil {
		t.Errorf("path.Match refuses %q: %v", p, err)
	}
	if got := p.Match(name); got != want {
		t.Errorf("%q matches %q: %v, path.Match: %v", p, name, got, want)
	}
}

// A resolved scope and Contains agree on every namespace that is there, but for
// the exclude label; of those that are not there only literals count.
func TestResolveProperties(t *testing.T) {
	t.Parallel()
	anyName := anyName()
	entries := rapid.SliceOfN(rapid.OneOf(anyName, rapid.SampledFrom([]string{"*", "", "a*", "*b", "?", "[ab]*", "[a-c]"})), 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		scope, problems := berth.ScopeOf(entries.Draw(t, "includes"), entries.Draw(t, "excludes"))
		if problems != nil {
			t.Skip("refused")
		}
		var known []berth.Namespace
		for _, name := range rapid.SliceOfDistinct(anyName, rapid.ID).Draw(t, "names") {
			exists := rapid.Bool().Draw(t, "exists")
			known = append(known, berth.Namespace{Name: name, Exists: exists, Excluded: exists && rapid.Bool().Draw(t, "excluded")})
		}
		if unresolvable := scope.Resolve(known, false).Unresolvable; unresolvable != scope.HasPattern() {
			t.Errorf("before the first sync: unresolvable %v, has a pattern %v", unresolvable, scope.HasPattern())
		}
		resolved := scope.Resolve(known, true)
		if resolved.Unresolvable || !slices.IsSorted(resolved.Names) || !slices.IsSorted(resolved.Excluded) {
			t.Errorf("resolved: %+v", resolved)
		}
		claims := func(name string) bool {
			named := slices.Contains(resolved.Names, name)
			switch scope.Kind {
			case berth.ScopeSome:
				return named
			case berth.ScopeEverythingBut:
				return !named
			}
			return scope.Kind == berth.ScopeEverything
		}
		literals := scope.Literals()
		for _, ns := range known {
			want := scope.Contains(ns.Name)
			switch {
			case scope.Kind == berth.ScopeEverything:
			case !ns.Exists && scope.Kind == berth.ScopeSome:
				want = slices.Contains(literals, ns.Name)
			case !ns.Exists && scope.Kind == berth.ScopeEverythingBut:
				want = !slices.Contains(literals, ns.Name)
			case ns.Excluded:
				want = false
			}
			if got := claims(ns.Name); got != want {
				t.Errorf("%s claims %+v: %v, want %v", scope.Kind, ns, got, want)
			}
			if got, want := slices.Contains(resolved.Excluded, ns.Name), ns.Excluded && scope.Contains(ns.Name); got != want {
				t.Errorf("%+v is left out: %v, want %v", ns, got, want)
			}
		}
		for _, name := range literals {
			there := slices.ContainsFunc(known, func(n berth.Namespace) bool { return n.Name == name })
			if !there && !slices.Contains(resolved.Names, name) {
				t.Errorf("the literal %q does not count: %+v", name, resolved)
			}
		}
	})
}

func FuzzParsePattern(f *testing.F) {
	for _, seed := range []string{"ns1", "ns*", "?", "ns[a-c]", "[abc]-*", "**", "[z-a]", "", "a{b}", "[]", "[\xff]", "a\n"} {
		f.Add(seed, "ns1")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		p, err := berth.ParsePattern(text)
		if err != nil {
			return
		}
		if p.String() != text {
			t.Errorf("%q became %q", text, p)
		}
		matched := p.Match(name)
		if matched && p.Literal() && (name != text || name == "") {
			t.Errorf("the literal %q matches %q", text, name)
		}
		if len(validation.IsDNS1123Label(name)) == 0 {
			checkLikePathMatch(t, p, name)
		}
		if _, problems := berth.ScopeOf([]string{text}, nil); problems != nil {
			t.Errorf("%q is a pattern and no scope: %v", text, problems)
		}
	})
}
