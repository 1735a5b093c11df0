"""Names of the built-in summary: 268 atomic topics and 141 languages, with the nodes above them."""

from __future__ import annotations

from collections.abc import Iterator

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
    """The nodes in such a text, each with the one above it: families, groups in them, members of the groups."""
    yield "All", None
    seen = set()
    for line in text.replace("\n ", " ").strip().splitlines():
        path, _, members = line.partition(": ")
        family, _, group = path.partition("/")
        if family not in seen:
            seen.add(family)
            yield family, "All"
        yield group, family
        yield from ((member.strip(), group) for member in members.split(","))
