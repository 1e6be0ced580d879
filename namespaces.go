package berth

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Pattern is one entry of a list of namespaces: a literal name or a glob in
// Velero's dialect, where * is any run of characters, ? one character, [abc]
// one of a list and [a-c] one of a range. What ParsePattern accepts always
// matches by the same rules, since it builds the matcher while it checks.
type Pattern struct {
	text  string
	match *regexp.Regexp // nil for a literal
	// prefix starts whatever matches: what is told at a glance is not matched.
	prefix string
}

// ParsePattern reads one entry. It refuses what Velero's check refuses (**, any
// of "| ( ) ! { } ,", empty or unbalanced brackets), what Velero's check takes
// but its matcher cannot compile ([a-z0-9], [z-a], [a-]), and what no namespace
// can be called (RFC 1123 labels). The empty string is a literal that matches
// no namespace.
func ParsePattern(text string) (Pattern, error) {
	if i := strings.IndexAny(text, "|()!{},"); i >= 0 {
		return Pattern{}, fmt.Errorf("%q: the character %q is not supported", text, text[i])
	}
	if strings.Contains(text, "**") {
		return Pattern{}, fmt.Errorf("%q: ** is not supported", text)
	}
	expr, isGlob, err := globExpression(text)
	if err != nil {
		return Pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	if err := checkNamespaceName(text); err != nil {
		return Pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	if !isGlob {
		return Pattern{text: text}, nil
	}
	match, err := regexp.Compile(expr)
	if err != nil {
		return Pattern{}, fmt.Errorf("%q: %w", text, err)
	}
	return Pattern{text: text, match: match, prefix: text[:strings.IndexAny(text, "*?[")]}, nil
}

// checkNamespaceName applies the rule for namespace names to a pattern, each
// special character counting as a letter (as Velero does).
func checkNamespaceName(text string) error {
	if text == "" {
		return nil
	}
	name := strings.NewReplacer("*", "x", "?", "x", "[", "x", "]", "x").Replace(text)
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return errors.New(problems[0])
	}
	return nil
}

// globExpression translates a glob into an anchored regular expression.
func globExpression(text string) (expr string, isGlob bool, err error) {
	var b strings.Builder
	b.WriteString(`\A`)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '*':
			b.WriteString(`.*`)
			isGlob = true
		case '?':
			b.WriteString(`.`)
			isGlob = true
		case ']':
			return "", false, errors.New("] without [")
		case '[':
			length := strings.IndexByte(text[i+1:], ']')
			if length < 0 {
				return "", false, errors.New("[ without ]")
			}
			class, err := classExpression(text[i+1 : i+1+length])
			if err != nil {
				return "", false, err
			}
			b.WriteString(class)
			i += length + 1
			isGlob = true
		default:
			b.WriteString(regexp.QuoteMeta(string(c)))
		}
	}
	b.WriteString(`\z`)
	return b.String(), isGlob, nil
}

// classExpression translates what stands between brackets: one range (a-c) or
// a list without ranges (abc).
func classExpression(class string) (string, error) {
	switch {
	case class == "":
		return "", errors.New("[] is empty")
	case strings.ContainsAny(class, "[*?"):
		return "", fmt.Errorf("[%s]: no special characters between brackets", class)
	case len(class) == 3 && class[1] == '-' && class[0] != '-':
		if class[0] > class[2] {
			return "", fmt.Errorf("[%s]: the range runs backwards", class)
		}
	case strings.Contains(class, "-"):
		return "", fmt.Errorf("[%s]: write one range, such as [a-c], or a list without ranges, such as [abc]", class)
	}
	return "[" + class + "]", nil
}

func (p Pattern) String() string { return p.text }

// Literal says whether p names one namespace.
func (p Pattern) Literal() bool { return p.match == nil }

// Match says whether the namespace called name is one of p's.
func (p Pattern) Match(name string) bool {
	if p.match == nil {
		return p.text == name && name != ""
	}
	return strings.HasPrefix(name, p.prefix) && p.match.MatchString(name)
}

// ScopeKind tells the shapes of a scope apart.
type ScopeKind string

const (
	// ScopeNone claims no namespace: cluster-scoped objects only.
	ScopeNone ScopeKind = "none"
	// ScopeSome claims the namespaces that its literals and patterns name.
	ScopeSome ScopeKind = "some"
	// ScopeEverything claims every namespace, now and until its end.
	ScopeEverything ScopeKind = "everything"
	// ScopeEverythingBut claims every namespace, now and until its end, except
	// those that its excludes name.
	ScopeEverythingBut ScopeKind = "everything-but"
)

// Scope is what a backup's two lists of namespaces mean.
type Scope struct {
	Kind     ScopeKind
	includes []Pattern
	excludes []Pattern
}

// ScopeOf reads the two lists of a spec. Empty includes, or * alone, mean
// everything; the empty string alone means no namespace. Every error in them
// is returned at once, its pointer relative to the spec.
func ScopeOf(includes, excludes []string) (Scope, []FieldError) {
	var problems []FieldError
	refuse := func(list string, i int, format string, args ...any) {
		problems = append(problems, FieldError{
			Pointer: fmt.Sprintf("/%s/%d", list, i), Code: "invalid", Detail: fmt.Sprintf(format, args...),
		})
	}
	parse := func(list string, entries []string) []Pattern {
		var patterns []Pattern
		for i, entry := range entries {
			p, err := ParsePattern(entry)
			if err != nil {
				refuse(list, i, "%v", err)
				continue
			}
			if entry != "" {
				patterns = append(patterns, p)
			}
		}
		return patterns
	}
	s := Scope{includes: parse("includedNamespaces", includes), excludes: parse("excludedNamespaces", excludes)}
	for i, entry := range excludes {
		switch {
		case entry == "*":
			refuse("excludedNamespaces", i, "* among the excludes leaves nothing")
		case entry != "" && slices.Contains(includes, entry):
			refuse("excludedNamespaces", i, "%q is also among the includes", entry)
		}
	}
	if i := slices.Index(includes, "*"); i >= 0 && len(includes) > 1 {
		refuse("includedNamespaces", i, "* stands alone or not at all")
	}
	if problems != nil {
		return Scope{}, problems
	}
	everything := len(includes) == 0 || includes[0] == "*"
	switch {
	case everything && len(s.excludes) == 0:
		s.Kind = ScopeEverything
	case everything:
		s.Kind = ScopeEverythingBut
	case len(s.includes) == 0:
		s.Kind = ScopeNone
	default:
		s.Kind = ScopeSome
	}
	return s, nil
}

// Wide scopes claim namespaces that nobody has named.
func (s Scope) Wide() bool { return s.Kind == ScopeEverything || s.Kind == ScopeEverythingBut }

// HasPattern says whether the cluster's namespaces must be known before the
// scope can be resolved.
func (s Scope) HasPattern() bool {
	isGlob := func(p Pattern) bool { return !p.Literal() }
	switch s.Kind {
	case ScopeSome:
		return slices.ContainsFunc(s.includes, isGlob)
	case ScopeEverythingBut:
		return slices.ContainsFunc(s.excludes, isGlob)
	}
	return false
}

// Literals are the names that count whether they exist or not: those that a
// ScopeSome includes, those that a ScopeEverythingBut excludes. Sorted, each once.
func (s Scope) Literals() []string {
	var patterns []Pattern
	switch s.Kind {
	case ScopeSome:
		patterns = s.includes
	case ScopeEverythingBut:
		patterns = s.excludes
	}
	var names []string
	for _, p := range patterns {
		if p.Literal() && (s.Kind == ScopeEverythingBut || !s.excluded(p.text)) {
			names = append(names, p.text)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Contains says whether a namespace of that name belongs to the scope.
func (s Scope) Contains(name string) bool {
	switch s.Kind {
	case ScopeEverything:
		return true
	case ScopeEverythingBut:
		return !s.excluded(name)
	case ScopeSome:
		return slices.ContainsFunc(s.includes, func(p Pattern) bool { return p.Match(name) }) && !s.excluded(name)
	}
	return false
}

func (s Scope) excluded(name string) bool {
	return slices.ContainsFunc(s.excludes, func(p Pattern) bool { return p.Match(name) })
}

// text tells scopes apart: two with the same text claim the same.
func (s Scope) text() string {
	var b strings.Builder
	b.WriteString(string(s.Kind))
	for _, list := range [][]Pattern{s.includes, s.excludes} {
		b.WriteByte('/')
		for _, p := range list {
			b.WriteString(p.text)
			b.WriteByte(',')
		}
	}
	return b.String()
}

// Namespace is one namespace of a cluster as its inventory knows it.
type Namespace struct {
	Name string
	// Exists is false for a name that only backups have mentioned.
	Exists bool
	// Excluded namespaces carry the label velero.io/exclude-from-backup=true.
	Excluded bool
}

// Resolved is a scope applied to an inventory.
type Resolved struct {
	// Names are, for ScopeSome, the namespaces that the backup claims; for
	// ScopeEverythingBut, the holes in what it claims. Sorted.
	Names []string
	// Excluded are the namespaces that the scope names and the exclude label
	// keeps out. Sorted.
	Excluded []string
	// Unresolvable scopes have a pattern while the cluster's namespaces are
	// not known: they claim everything and are not admitted.
	Unresolvable bool
}

// Resolve applies the scope to the namespaces that are known. A pattern that
// matches nothing is the empty set, never everything; a literal counts whether
// it exists or not. synced says whether the cluster's inventory was ever complete.
func (s Scope) Resolve(known []Namespace, synced bool) Resolved {
	if s.HasPattern() && !synced {
		return Resolved{Unresolvable: true}
	}
	names := map[string]bool{}
	for _, name := range s.Literals() {
		names[name] = true
	}
	var resolved Resolved
	for _, ns := range known {
		if !ns.Exists {
			continue
		}
		contains := s.Contains(ns.Name)
		if contains && ns.Excluded {
			resolved.Excluded = append(resolved.Excluded, ns.Name)
			contains = false
		}
		switch s.Kind {
		case ScopeSome:
			names[ns.Name] = contains
		case ScopeEverythingBut:
			names[ns.Name] = !contains
		}
	}
	for name, named := range names {
		if named {
			resolved.Names = append(resolved.Names, name)
		}
	}
	slices.Sort(resolved.Names)
	slices.Sort(resolved.Excluded)
	return resolved
}
