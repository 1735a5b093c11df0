"""The built-in summary: a synthetic population of the kind of a large directory of discussion groups.

It is calibrated to published properties of such a directory: 268 atomic topics and 141 languages; skewed popularity, in
which three English interests about business have at least 5 % of the members each; three regions; a language has
much information about the region and a topic little; the share of Europe rises when popular interests are removed. The
remaining values are assumptions: ten million members, half a million messages per month, 400 nodes in five dimensions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from thinwire_lab.workload.interests.hierarchy import Hierarchy
from thinwire_lab.workload.interests.interests import Interests
from thinwire_lab.workload.places.network_nodes import Nodes
from thinwire_lab.workload.random_rows import Floats, Ints, normals, quotas, uniforms
from thinwire_lab.workload.summary import Summary

TOPICS = """
Business/Companies: Business Services, Small Business, Consulting, Marketing, Advertising, Human Resources, Retail,
 Wholesale, Import and Export, Manufacturing, Logistics, Insurance, Real Estate
Business/Finance: Investing, Banking, Accounting, Currencies, Personal Finance, Taxes, Venture Capital
Business/Work: Jobs, Careers, Home Business, Franchising, Outsourcing, Project Management
Business/Industries: Agriculture, Automotive Trade, Aviation, Chemicals, Construction, Energy, Fashion Trade, Mining,
 Pharmaceuticals, Shipping, Textiles, Telecommunications
Computers/Software: Operating Systems, Databases, Office Software, Free Software, Web Browsers, Groupware,
 Security Software, Graphics Software, Enterprise Software
Computers/Programming: C and C++, Java, Python, PHP, Perl, JavaScript, Visual Basic, Ruby, Compilers, Web Frameworks
Computers/Hardware: Desktops, Laptops, Printers, Storage, Processors, Handhelds, Embedded Systems
Computers/Internet: Web Design, Hosting, Blogging, Search Engines, Online Advertising, Email, Chat, Domain Names
Computers/Networks: Wireless Networks, Routing, Network Security, Telephony, Grid Computing
Science/Natural Science: Physics, Chemistry, Biology, Astronomy, Geology, Ecology, Mathematics, Statistics, Weather
Science/Engineering: Civil Engineering, Electrical Engineering, Mechanical Engineering, Aerospace, Robotics,
 Biotechnology, Nanotechnology, Materials
Science/Social Science: Psychology, Economics, Sociology, Anthropology, Linguistics, Archaeology, Geography,
 Political Science
Recreation/Sports: Soccer, Tennis, Cricket, Basketball, Baseball, American Football, Golf, Rugby, Hockey, Swimming,
 Running, Cycling, Martial Arts, Skiing, Boxing, Volleyball, Table Tennis, Motor Sports
Recreation/Games: Chess, Card Games, Board Games, Role Playing, Video Games, Online Games, Puzzles, Gambling
Recreation/Outdoors: Hiking, Camping, Fishing, Hunting, Climbing, Sailing, Diving, Scouting
Recreation/Hobbies: Photography, Collecting, Model Making, Gardening, Amateur Radio, Sewing, Woodworking
Recreation/Travel: Air Travel, Hotels, Backpacking, Cruises, Travel Deals, Ecotourism
Recreation/Vehicles: Cars, Motorcycles, Trucks, Classic Cars, Boats, Aircraft
Arts/Music: Rock, Pop, Jazz, Classical Music, Hip Hop, Electronic Music, Folk Music, Metal, Instruments, Songwriting
Arts/Performing Arts: Theatre, Dance, Comedy, Magic, Opera
Arts/Visual Arts: Painting, Sculpture, Design, Architecture, Comics, Animation, Crafts
Arts/Film and Television: Movies, Television Series, Documentaries, Film Making, Celebrities, Anime
Arts/Literature: Fiction, Poetry, Science Fiction, Fantasy, Book Clubs, Writing, Publishing
Society/Culture: Holidays, Folklore, Genealogy, Museums, Food Culture, Expatriates, Diaspora
Society/Religion: Christianity, Islam, Hinduism, Buddhism, Judaism, Atheism, Spirituality, New Religions
Society/Politics: Elections, Parties, Human Rights, Environment Policy, Foreign Policy, Activism, Local Government
Society/Law: Immigration Law, Patents, Labour Law, Consumer Law, Courts
Society/People: Women, Men, Seniors, Teenagers, Ethnic Groups, Alumni, Military
Society/History: Ancient History, Modern History, Local History
Health/Medicine: Cardiology, Cancer, Diabetes, Nursing, Dentistry, Surgery, Paediatrics, Public Health
Health/Wellbeing: Fitness, Nutrition, Yoga, Weight Loss, Mental Health, Alternative Medicine, Beauty
Health/Conditions: Allergies, Addictions, Disabilities, Pain
Home/Family: Parenting, Pregnancy, Marriage, Adoption, Home Schooling, Pets
Home/Living: Cooking, Home Improvement, Interior Design, Consumer Goods, Dating
Schools and Universities/Teaching: Primary School, Secondary School, Higher Education, Distance Learning,
 Language Learning, Educational Technology, Scholarships
News/Current Events: World News, National News, Local News, Media Criticism
"""

LANGUAGES = """
Asian/Eastern Asian: Chinese Simplified, Chinese Traditional, Japanese, Korean, Cantonese, Mongolian, Uyghur, Tibetan
Asian/Southeast Asian: Indonesian, Thai, Vietnamese, Malay, Tagalog, Javanese, Burmese, Khmer, Lao, Sundanese, Cebuano,
 Ilocano, Minangkabau
Asian/Southern Asian: Hindi, Tamil, Bengali, Urdu, Telugu, Marathi, Malayalam, Kannada, Gujarati, Punjabi, Sinhala,
 Nepali, Oriya, Assamese, Sindhi, Kashmiri, Sanskrit, Bhojpuri, Dzongkha, Divehi
Asian/Western Asian: Arabic, Persian, Turkish, Hebrew, Kurdish, Pashto, Armenian, Georgian, Azerbaijani
Asian/Central Asian: Kazakh, Uzbek, Turkmen, Kyrgyz, Tajik, Tatar
European/Romance: Spanish, Portuguese, French, Italian, Romanian, Catalan, Galician, Occitan, Latin, Sardinian,
 Corsican, Romansh, Walloon, Friulian, Moldovan
European/Germanic: English, German, Dutch, Swedish, Danish, Norwegian, Nynorsk, Icelandic, Afrikaans, Luxembourgish,
 Frisian, Faroese, Yiddish, Low German
European/Slavic: Russian, Polish, Czech, Ukrainian, Bulgarian, Croatian, Serbian, Slovak, Slovenian, Bosnian,
 Macedonian, Belarusian, Sorbian
European/Baltic and Uralic: Finnish, Hungarian, Estonian, Lithuanian, Latvian, Sami
European/Other European: Greek, Albanian, Basque, Irish, Welsh, Scottish Gaelic, Breton, Maltese, Manx
African/Niger-Congo: Swahili, Yoruba, Igbo, Zulu, Xhosa, Shona, Sesotho, Tswana, Kinyarwanda, Wolof, Twi
African/Afroasiatic: Amharic, Hausa, Somali, Tigrinya, Oromo, Berber
American/Native American: Quechua, Guarani, Navajo, Nahuatl, Aymara
Other/Constructed and Oceanian: Esperanto, Interlingua, Maori, Hawaiian, Samoan, Fijian
"""


def hierarchy_of(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the nodes of a text such as `TOPICS` with their parents: families, groups, and members of groups."""
    yield "All", None
    families = set()
    for line in text.replace("\n ", " ").strip().splitlines():
        path, _, members = line.partition(": ")
        family, _, group = path.partition("/")
        if family not in families:
            families.add(family)
            yield family, "All"
        yield group, family
        yield from ((member.strip(), group) for member in members.split(","))


REGIONS = ("Asia", "US", "Europe")
MEMBERS, MESSAGES = 10_000_000, 500_000
SEED = 2007

# Shares of the speakers of each language family by region.
HOMES = {
    "Asian": (0.86, 0.08, 0.06),
    "European": (0.04, 0.16, 0.80),
    "African": (0.10, 0.25, 0.65),
    "American": (0.02, 0.78, 0.20),
    "Other": (0.34, 0.33, 0.33),
}
ENGLISH = (0.30, 0.58, 0.12)
LEADERS = ("Chinese Simplified", "Spanish", "Portuguese", "French", "German", "Arabic", "Indonesian", "Russian")
HOT = {"Business Services": 0.11, "Small Business": 0.08, "Consulting": 0.06}
"""topics whose English interests have these shares of all members"""
NODES = (90, 180, 130)
# Centres of the regions, in milliseconds: about 150 from Asia to the US, 90 from there to Europe, 220 from end to end.
CENTRES = np.array([[-150.0, 0, 0, 0, 0], [0.0, 0, 0, 0, 0], [68.0, 59, 0, 0, 0]])
BREADTH = np.array([[40.0, 25, 12, 8, 5], [22.0, 14, 8, 5, 3], [18.0, 12, 7, 5, 3]])


@cache
def builtin() -> Summary:
    """Return the built-in summary, which is deterministic."""
    topics = Hierarchy.of("topic", hierarchy_of(TOPICS))
    languages = Hierarchy.of("language", hierarchy_of(LANGUAGES))
    members = _members(topics, languages)
    rates = _rates(members)
    return Summary(members, rates, _nodes())


def _members(topics: Hierarchy, languages: Hierarchy) -> Interests:
    """Return counts from the popularity of topics and languages, random variation of pairs, and the hot interests."""
    pairs = np.multiply.outer(_by_rank(topics, (), 0.8), _by_rank(languages, ("English", *LEADERS), 1.25))
    rows = np.arange(pairs.size)
    varied = pairs * np.exp(0.6 * normals(SEED, "pairs", rows, 1)).reshape(pairs.shape)
    shares = varied / varied.sum() * (1.0 - sum(HOT.values()))
    for name, share in HOT.items():
        shares[_leaf(topics, name), _leaf(languages, "English")] = share
    cells = shares[..., None] * _homes(topics, languages)
    counts = np.zeros((len(topics), len(languages), len(REGIONS)))
    counts[np.ix_(topics.leaves, languages.leaves)] = quotas(cells.ravel(), MEMBERS).reshape(cells.shape)
    return Interests((topics, languages), REGIONS, counts)


def _homes(topics: Hierarchy, languages: Hierarchy) -> Floats:
    """Return the shares of the regions for each pair: mainly those of the language, varied slightly by the topic."""
    mixes = np.array([_mix(languages, int(leaf)) for leaf in languages.leaves])
    shape = (topics.leaves.size, 1, len(REGIONS))
    variation = np.exp(0.1 * normals(SEED, "touch", np.arange(topics.leaves.size), len(REGIONS))).reshape(shape)
    homes = mixes * variation
    return np.asarray(homes / homes.sum(axis=-1, keepdims=True))


def _mix(languages: Hierarchy, leaf: int) -> Floats:
    """Return the shares of the regions of a language, varied around those of its family."""
    if languages.ids[leaf] == "English":
        return np.array(ENGLISH)
    family = languages.ids[languages.parents[languages.parents[leaf]]]
    mix = np.array(HOMES[family]) * np.exp(0.5 * normals(SEED, "homes", np.array([leaf]), len(REGIONS))[0])
    return np.asarray(mix / mix.sum())


def _by_rank(axis: Hierarchy, leaders: tuple[str, ...], exponent: float) -> Floats:
    """Return weights that fall with the rank (Zipf). Leaders have the first ranks; the others are random."""
    ranks = np.argsort(np.argsort(uniforms(SEED, axis.name, axis.leaves))).astype(np.float64) + len(leaders)
    for rank, name in enumerate(leaders):
        ranks[_leaf(axis, name)] = rank
    return np.asarray((ranks + 1.0) ** -exponent)


def _leaf(axis: Hierarchy, name: str) -> int:
    """Return the index of a node among the atomic ones."""
    return int(np.searchsorted(axis.leaves, axis.index[name]))


def _rates(members: Interests) -> Floats:
    """Return messages per month, which grow less than proportionally with the members and vary randomly."""
    popularity = members.popularity
    rows: Ints = np.arange(popularity.size)
    messages = popularity**0.85 * np.exp(0.8 * normals(SEED, "messages", rows, 1)).reshape(popularity.shape)
    return np.asarray(quotas(messages.ravel(), MESSAGES).reshape(popularity.shape).astype(np.float64))


def _nodes() -> Nodes:
    region = np.repeat(np.arange(len(REGIONS)), NODES)
    steps = normals(SEED, "nodes", np.arange(region.size), CENTRES.shape[1])
    return Nodes(REGIONS, region, CENTRES[region] + BREADTH[region] * steps)
