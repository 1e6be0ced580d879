package berth

import (
	"math/bits"
	"strings"
)

// predecessors finds, among backups that were put behind each other, those that
// overlap the next one. Backups are numbered from 0 as they are added. It does
// what comparing the next one with all before it does, and takes about as long
// as the claim has names.
type predecessors struct {
	claims []Claim
	// byName are the backups that claim a name, of those that claim some.
	byName map[string]*claimants
	// some counts those that claim some names, at least one.
	some int
	// alike are, by the names that they claim, those that claim some.
	alike map[string]*alike
	// wide are those that claim all but some.
	wide []int
	// holes are, by name, the wide ones that leave the name out, as places in wide.
	holes map[string]*holes
	// seen holds, by backup, the last question in which it was counted.
	seen     []int
	question int
}

// claimants are the backups that claim one name.
type claimants struct {
	list []int
	// set has a bit for each of the list; nil while they are few.
	set []uint64
	// alike are the different claims among them.
	alike []*alike
}

// fewClaimants are so many that counting them one by one is as good.
const fewClaimants = 64

// alike are the backups that claim the same names.
type alike struct {
	claim Claim
	count int
	seen  int
}

// holes are the wide backups that leave one name out.
type holes struct {
	in []int
	// first starts the unbroken run of them that ends with the last of in.
	first int
}

func newPredecessors() *predecessors {
	return &predecessors{byName: map[string]*claimants{}, alike: map[string]*alike{}, holes: map[string]*holes{}}
}

func (p *predecessors) add(c Claim) {
	number := len(p.claims)
	p.claims = append(p.claims, c)
	p.seen = append(p.seen, 0)
	switch {
	case c.All:
		p.addHoles(c.Names, len(p.wide))
		p.wide = append(p.wide, number)
	case len(c.Names) > 0:
		p.addSome(c, number)
	}
}

func (p *predecessors) addSome(c Claim, number int) {
	p.some++
	key := strings.Join(c.Names, ",")
	same, isKnown := p.alike[key]
	if !isKnown {
		same = &alike{claim: c}
		p.alike[key] = same
	}
	same.count++
	for _, name := range c.Names {
		of := p.byName[name]
		if of == nil {
			of = &claimants{}
			p.byName[name] = of
		}
		of.add(number)
		if !isKnown {
			of.alike = append(of.alike, same)
		}
	}
}

func (c *claimants) add(number int) {
	c.list = append(c.list, number)
	switch {
	case c.set != nil:
		c.mark(number)
	case len(c.list) > fewClaimants:
		for _, n := range c.list {
			c.mark(n)
		}
	}
}

func (c *claimants) mark(number int) {
	for len(c.set) <= number/64 {
		c.set = append(c.set, 0)
	}
	c.set[number/64] |= 1 << (number % 64)
}

func (c *claimants) has(number int) bool {
	return number/64 < len(c.set) && c.set[number/64]&(1<<(number%64)) != 0
}

func (p *predecessors) addHoles(names []string, place int) {
	for _, name := range names {
		h := p.holes[name]
		if h == nil {
			h = &holes{}
			p.holes[name] = h
		}
		if len(h.in) == 0 || h.in[len(h.in)-1] != place-1 {
			h.first = place
		}
		h.in = append(h.in, place)
	}
}

// last is the number of the last one that overlaps c; -1 if there is none.
func (p *predecessors) last(c Claim) int {
	if c.All {
		return p.lastBeforeWide(c)
	}
	last := -1
	for _, name := range c.Names {
		if of := p.byName[name]; of != nil {
			last = max(last, of.list[len(of.list)-1])
		}
		if place := p.lastWideWith(name); place >= 0 {
			last = max(last, p.wide[place])
		}
	}
	return last
}

// lastWideWith is the place of the last wide one that claims the name.
func (p *predecessors) lastWideWith(name string) int {
	last := len(p.wide) - 1
	if h := p.holes[name]; h != nil && h.in[len(h.in)-1] == last {
		return h.first - 1
	}
	return last
}

// lastBeforeWide walks back to the wide one before, which always overlaps: so
// that over all wide ones each backup is passed once.
func (p *predecessors) lastBeforeWide(c Claim) int {
	for number := len(p.claims) - 1; number >= 0; number-- {
		if p.claims[number].Overlaps(c) {
			return number
		}
	}
	return -1
}

// count is how many overlap c.
func (p *predecessors) count(c Claim) int {
	if c.All {
		return len(p.wide) + p.some - p.countInside(c)
	}
	return p.countWide(c.Names) + p.countSome(c.Names)
}

// countInside counts those of some names that all fall into the holes of c.
func (p *predecessors) countInside(c Claim) int {
	p.question++
	inside := 0
	for _, hole := range c.Names {
		of := p.byName[hole]
		if of == nil {
			continue
		}
		for _, same := range of.alike {
			if same.seen != p.question && !same.claim.Overlaps(c) {
				inside += same.count
			}
			same.seen = p.question
		}
	}
	return inside
}

// countWide counts the wide ones that claim one of the names at least.
func (p *predecessors) countWide(names []string) int {
	if len(names) == 0 {
		return 0
	}
	var fewest []int
	for i, name := range names {
		h := p.holes[name]
		if h == nil {
			return len(p.wide)
		}
		if i == 0 || len(h.in) < len(fewest) {
			fewest = h.in
		}
	}
	if len(names) == 1 {
		return len(p.wide) - len(fewest)
	}
	leaveAllOut := 0
	for _, place := range fewest {
		if !p.claims[p.wide[place]].Overlaps(Claim{Names: names}) {
			leaveAllOut++
		}
	}
	return len(p.wide) - leaveAllOut
}

// countSome counts those of some names that claim one of these: those of names
// with many claimants by their sets, the others one by one.
func (p *predecessors) countSome(names []string) int {
	var many, few []*claimants
	for _, name := range names {
		switch of := p.byName[name]; {
		case of == nil:
		case of.set != nil:
			many = append(many, of)
		default:
			few = append(few, of)
		}
	}
	p.question++
	count := countUnion(many)
	for _, of := range few {
		for _, number := range of.list {
			if p.seen[number] != p.question && !anyHas(many, number) {
				count++
			}
			p.seen[number] = p.question
		}
	}
	return count
}

func anyHas(sets []*claimants, number int) bool {
	for _, of := range sets {
		if of.has(number) {
			return true
		}
	}
	return false
}

// countUnion counts what is in one of the sets at least.
func countUnion(sets []*claimants) int {
	if len(sets) == 1 {
		return len(sets[0].list)
	}
	longest := 0
	for _, of := range sets {
		longest = max(longest, len(of.set))
	}
	count := 0
	for word := range longest {
		var union uint64
		for _, of := range sets {
			if word < len(of.set) {
				union |= of.set[word]
			}
		}
		count += bits.OnesCount64(union)
	}
	return count
}
