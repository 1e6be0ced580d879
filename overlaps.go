package berth

// overlaps finds, among active backups that come and go, those that one overlaps.
// Backups are places in a list that is known from the start. Those that left are
// taken out of its lists as they are met.
type overlaps struct {
	claims []numbered
	gone   []bool
	// byName are, by the name's number, the places that claim it, of those that
	// claim some.
	byName [][]int
	// some claim some names, wide all but some.
	some, wide []int
	// seen holds, by place, the last question in which it was met.
	seen     []int
	question int
	answer   []int
}

// numbered is a claim with numbers for names.
type numbered struct {
	all   bool
	names []int
	// hole has a bit for each name that is left out.
	hole []uint64
}

func newOverlaps(claims []Claim) *overlaps {
	o := &overlaps{gone: make([]bool, len(claims)), seen: make([]int, len(claims))}
	numbers := map[string]int{}
	for _, c := range claims {
		n := numbered{all: c.All, names: make([]int, 0, len(c.Names))}
		for _, name := range c.Names {
			number, isKnown := numbers[name]
			if !isKnown {
				number = len(numbers)
				numbers[name] = number
			}
			n.names = append(n.names, number)
		}
		if n.all {
			n.hole = bitsOf(n.names)
		}
		o.claims = append(o.claims, n)
	}
	o.byName = make([][]int, len(numbers))
	return o
}

func bitsOf(numbers []int) []uint64 {
	var set []uint64
	for _, number := range numbers {
		for len(set) <= number/64 {
			set = append(set, 0)
		}
		set[number/64] |= 1 << (number % 64)
	}
	return set
}

func (o *overlaps) enter(place int) {
	switch c := o.claims[place]; {
	case c.all:
		o.wide = append(o.wide, place)
	case len(c.names) > 0:
		o.some = append(o.some, place)
		for _, name := range c.names {
			o.byName[name] = append(o.byName[name], place)
		}
	}
}

func (o *overlaps) leave(place int) { o.gone[place] = true }

// of are the active places that this one, which is not active itself, overlaps,
// each once. The answer holds until the next question.
func (o *overlaps) of(place int) []int {
	o.question++
	o.answer = o.answer[:0]
	c := &o.claims[place]
	o.wide = o.active(o.wide)
	if c.all {
		o.meet(o.wide)
		o.some = o.active(o.some)
		for _, other := range o.some {
			if c.reaches(o.claims[other].names) {
				o.answer = append(o.answer, other)
			}
		}
		return o.answer
	}
	for _, other := range o.wide {
		if o.claims[other].reaches(c.names) {
			o.answer = append(o.answer, other)
		}
	}
	for _, name := range c.names {
		o.byName[name] = o.active(o.byName[name])
		o.meet(o.byName[name])
	}
	return o.answer
}

// meet adds those of the list that were not met yet.
func (o *overlaps) meet(list []int) {
	for _, other := range list {
		if o.seen[other] != o.question {
			o.seen[other] = o.question
			o.answer = append(o.answer, other)
		}
	}
}

// active is the list without those that left.
func (o *overlaps) active(list []int) []int {
	left := list[:0]
	for _, place := range list {
		if !o.gone[place] {
			left = append(left, place)
		}
	}
	return left
}

// reaches says whether a claim on all but some has one of the names.
func (n *numbered) reaches(names []int) bool {
	for _, name := range names {
		if name/64 >= len(n.hole) || n.hole[name/64]&(1<<(name%64)) == 0 {
			return true
		}
	}
	return false
}
