"""Fixed English texts for kl.py: prose, dialogue, instructions, code and data, so that many kinds of token are met."""

TEXTS = [
    """The old harbour wakes before the town does. At four in the morning the first lamps are lit along the quay, and men and
women in heavy coats carry boxes of ice to the boats. Nobody speaks much. The gulls do the talking, and the ropes, and
the water that knocks softly against the stone. By five o'clock the fleet is out past the lighthouse, eleven small
lights in a row, and the bakery on the corner has opened its door so that the smell of bread runs down the whole
street. Children who live near the harbour learn to sleep through the engines, but they wake at once when the engines
are missing. Once, in the winter of 1963, the sea froze as far as the second buoy, and for nine days no boat could
leave. People still tell each other how quiet it was, and how the bread tasted of nothing because there was no salt
wind to go with it. A visitor who asks about that winter will be given a chair, a cup of coffee and at least three
different stories, each of them true in its own way, and each told by somebody who was there and remembers the others
being wrong. In the evening the boats return in the order in which they left, and the oldest captain always counts them
twice before he goes home to his supper.""",
    """To repair a dripping tap you need a spanner, a screwdriver, a new washer and about twenty minutes. First, turn off the
water. The valve is usually under the sink; if you can not find it there, look for the main valve near the meter.
Second, open the tap to let the remaining water run out, and put the plug into the drain so that small parts are not
lost. Third, remove the cap from the handle with the screwdriver and loosen the screw below it. Fourth, take off the
handle and unscrew the valve body with the spanner, turning it to the left. Fifth, pull out the worn washer and compare
it with the new one: both must have the same diameter and the same thickness. Sixth, clean the seat with a cloth, put a
little grease on the new washer and press it into place. Finally, put everything back together in the opposite order,
open the valve slowly and check that nothing leaks. If the tap still drips, the seat itself is probably damaged, and a
plumber can grind it smooth again for less than the price of a new tap.""",
    """def moving_average(values, width):
    \"\"\"Returns the mean of each window of `width` neighbours.\"\"\"
    if width < 1:
        raise ValueError("width must be at least 1")
    total = sum(values[:width])
    result = [total / width]
    for i in range(width, len(values)):
        total += values[i] - values[i - width]
        result.append(total / width)
    return result


if __name__ == "__main__":
    temperatures = [12.5, 13.1, 15.0, 14.2, 11.9, 10.4, 9.8]
    for day, mean in enumerate(moving_average(temperatures, 3), start=2):
        print(f"day {day}: {mean:.2f} degrees")

# The function keeps a running total, so its cost does not depend on the width of the window. For long series of floats
# the rounding errors add up; use math.fsum on each window when the last digit matters more than the time.""",
    """"Have you ever seen the northern lights?" asked Maria. "Only once," said her grandfather, "and I nearly missed them
because I was looking for my gloves." She laughed. "What did they look like?" He thought for a while before he
answered. "Like a curtain in a window that somebody forgot to close. Green at the bottom, a little red at the top, and
always moving, although there was no wind at all. I had been told that they make a sound, but I heard nothing except my
own teeth." Maria wrote that down in her notebook, because her teacher wanted everyone to bring an eyewitness report on
Monday. "And what causes them?" she asked, with the pencil ready. "Particles from the sun hit the air far above us,"
he said. "The field of the earth guides them to the poles, and the gases begin to glow: oxygen gives green and red,
nitrogen gives blue. Your grandmother knew that better than I do. She said it was the only time she ever saw physics
dance." They sat at the kitchen table until the tea was cold.""",
    """The city council met on Tuesday, 14 March, to discuss the budget for the coming year. Income is expected to rise by 2.4
percent to 318 million, while spending grows by 3.1 percent, mostly because of higher wages and energy prices. The
largest single item is education with 97 million, followed by public transport with 64 million and housing with 41
million. The mayor proposed to close the gap by selling two empty office buildings near the station; the opposition
would rather delay the new bridge, whose cost has doubled since 2019. After four hours of debate the vote was put off
until the end of the month. Several citizens used the open part of the meeting to complain about the night bus, which
was cut from six to three trips in January. "I work in the hospital until eleven," said one nurse. "If I miss the last
bus, I walk for fifty minutes." The head of the transport office promised to present figures at the next meeting and to
invite the hospital and the two large factories to take part in planning the new timetable.""",
    """{"report": {"station": "Northfield", "date": "2024-11-05", "readings": [
  {"time": "06:00", "temperature": 3.2, "humidity": 91, "wind": {"speed": 4.1, "direction": "NW"}},
  {"time": "12:00", "temperature": 8.7, "humidity": 74, "wind": {"speed": 6.8, "direction": "W"}},
  {"time": "18:00", "temperature": 6.0, "humidity": 83, "wind": {"speed": 5.5, "direction": "W"}}],
 "comment": "Fog until nine, then sunny with a few clouds. The rain gauge was cleaned on Monday and shows no defects."}}

The report above is easy to read for a machine, but most people prefer a sentence: on the fifth of November the station
at Northfield measured temperatures between three and nine degrees, a moderate wind from the west and no rain. Weather
services therefore publish both forms, and a small program writes the sentence from the numbers.""",
    """The heart of a blue whale weighs about as much as a small car, and a child could crawl through its largest artery. It
beats as rarely as four times a minute when the animal dives, and up to thirty times when it comes back to breathe. How
does anybody know? For a long time nobody did: hearts of stranded whales were weighed and measured, but a dead heart
does not beat. In 2018 a team on the coast of California fixed a small yellow recorder to the back of a whale with four
suction cups. It stayed there for almost nine hours, went down to 184 metres with its host, and came loose by itself.
The electrodes in two of the cups had written down every beat. What surprised the team most was not the slow rhythm in
the depth but the fast one at the surface: the heart was working close to its limit. That may be one reason why no
larger animal has ever lived. A bigger body needs more blood, a bigger heart beats more slowly, and at some size the two
no longer meet. The recorder itself, by the way, was found floating two miles from the spot where it had been put on.""",
    """Minutes of the allotment society, 3 May. Present: Mrs Okafor (chair), Mr Lindqvist, Ms Adeyemi, the brothers Brandt.

1. The water bill. It is 212.40 for the first quarter, nearly twice last year's. Mr Lindqvist suspects a leak behind
   plot 14. The younger Brandt will dig there on Saturday if the weather holds; he asks for help and for a second spade.
2. The shed. The lock has been broken again. Nothing is missing except a bag of lime. It was agreed to buy a stronger
   lock (not more than 35.00) and to leave the window as it is.
3. Bees. Ms Adeyemi would like to keep two hives at the north fence. After some discussion the society agreed, three
   votes to one, provided that the neighbours on the other side of the fence are asked first.
4. Any other business. The elder Brandt reported that the hedgehog is back. The chair closed the meeting at 20:15.

Next meeting: 7 June, at the usual place. Whoever brings cake is asked to bring a knife as well.""",
    """class Stack {
 public:
  explicit Stack(size_t capacity) : items_(capacity) {}

  // Returns false and changes nothing if the stack is full.
  bool push(int value) {
    if (n_ == items_.size()) return false;
    items_[n_++] = value;
    return true;
  }

  std::optional<int> pop() {
    if (n_ == 0) return std::nullopt;
    return items_[--n_];
  }

 private:
  std::vector<int> items_;
  size_t n_ = 0;
};

TEST(StackTest, FullStackRefusesAnotherItem) {
  Stack stack(2);
  EXPECT_TRUE(stack.push(7));
  EXPECT_TRUE(stack.push(8));
  EXPECT_FALSE(stack.push(9));
  EXPECT_EQ(stack.pop(), 8);
}

The class owns its memory and allocates once, in the constructor. That makes push cheap and predictable, at the price of
a limit that has to be known beforehand. When it is not known, let the vector grow and give up the promise that push
never allocates.""",
    """Why is the sky dark at night? The question sounds like one that a child would ask at bedtime, and it puzzled astronomers
for three centuries. If space went on for ever and were filled evenly with stars, every line of sight would end on the
surface of one of them, as every line of sight in a deep forest ends on a trunk. The whole sky should then be as bright
as the sun. Dust between the stars is no way out, since dust that is lit for long enough begins to glow as well. The
answer has two parts. The first is that the stars have not been shining for ever: light from beyond a certain distance
has had no time to reach us. The second is that space itself is growing, which stretches the light of distant galaxies
until our eyes can not see it any more. So the darkness between the stars is not an absence of news; it is the oldest
piece of news there is. Edgar Allan Poe guessed the first part in 1848, in a prose poem that hardly anyone read.""",
    """Letter to the editor. Sir: your article of last Friday ("Trams: who needs them?") quotes me with the words "no one will
miss line 6". What I said, and your reporter will find it on his tape, was that no one will miss the old cars of line 6,
which rattle, leak and can not be entered with a pram. The line itself carries eleven thousand people a day. I am one of
them. I would also like to correct three figures. The cost of the new tracks is 5.8 million, not 58 million. The journey
from the hospital to the market takes 14 minutes by tram and 26 by bus, not the other way round. And the survey in which
"most citizens" preferred the bus had 41 participants, all of whom were asked at a bus stop. It may be that trams are
too dear for a town of our size; there are good arguments for that, and I have heard some of them in your own paper. But
let us begin with the right numbers. Yours faithfully, H. Marchetti, Canal Street.""",
    """Grandmother's plum cake

For the dough:
- 375 g flour
- 20 g fresh yeast
- 60 g sugar, 60 g butter, 1 egg
- 180 ml warm milk, a pinch of salt

For the top: 1.5 kg ripe plums, 50 g butter, cinnamon and sugar.

Crumble the yeast into the milk with a spoonful of the sugar and wait until it foams. Knead everything for ten minutes;
the dough should come off the bowl but still stick a little to your finger. Cover it and leave it in a warm place for an
hour. Meanwhile stone the plums: cut them so that the two halves stay together like an open book. Roll out the dough on
a greased tray, prick it with a fork and set the plums on it in tight rows, as if they were roof tiles. Leave it for
another fifteen minutes, then bake it at 190 degrees for about 35 minutes. Sprinkle the cinnamon and sugar only when the
cake is out of the oven, because sugar draws the juice from the fruit. It tastes best on the second day.""",
]
