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
]
